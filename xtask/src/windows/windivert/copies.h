/*
 * Copies of the datagrams of this host, with the kernel's timestamps, as the driver takes its own:
 * in the kernel, when a packet passes. Only UDP is copied.
 */
#ifndef COPIES_H
#define COPIES_H

#include <stdint.h>

/* A packet that passes. */
struct copy {
	const uint8_t *bytes;
	uint32_t length;
	uint32_t interface;
	int is_outbound;
	int64_t timestamp; /* of QueryPerformanceCounter */
};

/* Begins to copy, if it has not begun. `take` is called by a thread of its own. Returns 0 or a
 * negative errno. */
int copies_begin(void (*take)(const struct copy *));

#endif
