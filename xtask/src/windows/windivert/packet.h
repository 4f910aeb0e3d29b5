/* IP packets: where their headers are, their checksums, their time to live. */
#ifndef PACKET_H
#define PACKET_H

#include <stdint.h>

struct packet_view {
	int version; /* 4 or 6 */
	int is_fragment;
	int protocol;
	uint32_t length;
	/* The header of the protocol, as far as it is in the packet; NULL in later fragments. */
	const uint8_t *transport;
	uint32_t transport_length;
};

/* The length of the packet at the beginning of these bytes; 0: there is no complete one. */
uint32_t packet_length(const uint8_t *bytes, uint32_t room);

/* Whether these bytes are one packet; describes it. */
int packet_parse(const uint8_t *bytes, uint32_t length, struct packet_view *view);

/* Computes those checksums that are asked for. */
void packet_compute_checksums(uint8_t *bytes, uint32_t length, int ip, int tcp, int udp);

/* Takes one from the packet's time to live. Returns 0 if that was the last. */
int packet_age(uint8_t *bytes);

#endif
