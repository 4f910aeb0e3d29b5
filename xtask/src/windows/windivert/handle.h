/* Handles: each takes the packets of its filter, until they are received. */
#ifndef HANDLE_H
#define HANDLE_H

#include "copies.h"
#include "filter.h"
#include "host.h"
#include "windivert.h"

/* A receive call. It is done when `overlapped` says so. */
struct receive {
	struct receive *next;
	uint8_t *bytes;
	uint32_t room;
	struct address *addresses; /* or NULL */
	uint32_t addresses_room;   /* bytes */
	uint32_t *addresses_size;  /* or NULL */
	OVERLAPPED *overlapped;
};

/* Each returns 0 or an error of Windows. */

/* Takes over the filter. `is_for_copies`: packets go on, and the handle gets copies. */
DWORD handle_open(struct filter *filter, int priority, int is_for_copies, HANDLE *handle);

/* Takes over the call, which is freed when it is done. */
DWORD handle_receive(HANDLE handle, struct receive *receive);

/* Whether the handle may send. */
DWORD handle_may_send(HANDLE handle);

DWORD handle_shut_down(HANDLE handle, int how);

/* Gives back what has not been received. */
DWORD handle_close(HANDLE handle);

DWORD handle_set(HANDLE handle, enum parameter parameter, uint64_t value);
DWORD handle_get(HANDLE handle, enum parameter parameter, uint64_t *value);

/* Injects a packet, whose length is right. */
DWORD inject(const uint8_t *packet, uint32_t length, const struct address *address);

/* Gives a packet that passes to the handles for copies. */
void handles_copy(const struct copy *copy);

/* Whether a handle takes a packet that has arrived. */
int handles_decide(const struct arrival *arrival);

#endif
