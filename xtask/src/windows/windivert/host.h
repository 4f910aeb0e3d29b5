/*
 * Linux below the stand-in. A queue of the packet filter (nfnetlink_queue) holds each packet that
 * has arrived for this host, reassembled, until this program decides about it. If there is no such
 * program the packet goes on. So the kernel has all packets again when the program ends in any way.
 *
 * Packets are given back to the kernel by a TUN device, and sent by raw sockets. A packet that was
 * given back seems to have arrived by that device. What is for an address of one link only (IPv6
 * link-local) is not received then.
 */
#ifndef HOST_H
#define HOST_H

#include <stdint.h>

/* A packet that has arrived. */
struct arrival {
	const uint8_t *bytes;
	uint32_t length;
	uint32_t interface;
	int is_verified; /* its transport checksum was verified, or was never computed */
};

/* Begins to hold packets, if it has not begun. `decide` is called by a thread of its own, and
 * returns whether the packet is taken from the kernel. Returns 0 or a negative errno. */
int host_begin(int (*decide)(const struct arrival *));

/* Gives the kernel a packet, as if it had arrived. Returns 0 or a negative errno. */
int host_give(const uint8_t *packet, uint32_t length);

/* Sends a packet; the interface is that of link-local destinations. Returns 0 or a negative
 * errno. */
int host_send(const uint8_t *packet, uint32_t length, uint32_t interface);

#endif
