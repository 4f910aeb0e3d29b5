/* See packet.h. */
#include "packet.h"
#include <arpa/inet.h>
#include <string.h>

#define IPV4_HEADER 20
#define IPV6_HEADER 40

/* A number in network order. */
static uint32_t number(const uint8_t *bytes)
{
	return bytes[0] << 8 | bytes[1];
}

uint32_t packet_length(const uint8_t *bytes, uint32_t room)
{
	uint32_t header, length;

	if (room < IPV4_HEADER)
		return 0;
	switch (bytes[0] >> 4) {
	case 4:
		header = (bytes[0] & 15) * 4;
		length = number(bytes + 2);
		return header >= IPV4_HEADER && length >= header && length <= room ? length : 0;
	case 6:
		length = IPV6_HEADER + number(bytes + 4);
		return length <= room ? length : 0;
	default:
		return 0;
	}
}

/* Walks over the extension headers of IPv6. Returns where the next header begins. */
static uint32_t walk(const uint8_t *bytes, struct packet_view *view, int *is_later)
{
	uint32_t at = IPV6_HEADER, extension;

	view->protocol = bytes[6];
	for (;;) {
		switch (view->protocol) {
		case IPPROTO_HOPOPTS:
		case IPPROTO_DSTOPTS:
		case IPPROTO_ROUTING:
			if (at + 2 > view->length)
				return at;
			extension = (bytes[at + 1] + 1) * 8;
			break;
		case IPPROTO_FRAGMENT:
			if (at + 8 > view->length)
				return at;
			view->is_fragment = 1;
			*is_later = number(bytes + at + 2) >> 3 != 0;
			extension = 8;
			break;
		default:
			return at;
		}
		if (at + extension > view->length)
			return at;
		view->protocol = bytes[at];
		at += extension;
		if (*is_later)
			return at;
	}
}

int packet_parse(const uint8_t *bytes, uint32_t length, struct packet_view *view)
{
	int is_later = 0;
	uint32_t at;

	memset(view, 0, sizeof(*view));
	if (!length || packet_length(bytes, length) != length)
		return 0;
	view->version = bytes[0] >> 4;
	view->length = length;
	if (view->version == 4) {
		uint32_t fragment = number(bytes + 6);

		view->is_fragment = (fragment & 0x3fff) != 0;
		is_later = (fragment & 0x1fff) != 0;
		view->protocol = bytes[9];
		at = (bytes[0] & 15) * 4;
	} else {
		at = walk(bytes, view, &is_later);
	}
	if (!is_later) {
		view->transport = bytes + at;
		view->transport_length = length - at;
	}
	return 1;
}

/* The sum of RFC 1071 goes on. */
static uint32_t sum(uint32_t so_far, const uint8_t *bytes, uint32_t length)
{
	for (; length > 1; bytes += 2, length -= 2)
		so_far += number(bytes);
	if (length)
		so_far += bytes[0] << 8;
	return (so_far & 0xffff) + (so_far >> 16);
}

static void put(uint8_t *field, uint32_t sum)
{
	sum = (sum & 0xffff) + (sum >> 16);
	sum = ~((sum & 0xffff) + (sum >> 16)) & 0xffff;
	field[0] = sum >> 8;
	field[1] = sum;
}

void packet_compute_checksums(uint8_t *bytes, uint32_t length, int ip, int tcp, int udp)
{
	struct packet_view view;
	uint8_t *transport;
	uint32_t at, start;

	if (!packet_parse(bytes, length, &view))
		return;
	if (view.version == 4 && ip) {
		memset(bytes + 10, 0, 2);
		put(bytes + 10, sum(0, bytes, (bytes[0] & 15) * 4));
	}
	if (!view.transport || view.is_fragment)
		return;
	if (view.protocol == IPPROTO_TCP && tcp && view.transport_length >= 20)
		at = 16;
	else if (view.protocol == IPPROTO_UDP && udp && view.transport_length >= 8)
		at = 6;
	else
		return;
	transport = bytes + (view.transport - bytes);
	memset(transport + at, 0, 2);
	start = view.version == 4 ? sum(0, bytes + 12, 8) : sum(0, bytes + 8, 32);
	start += view.protocol + (view.transport_length & 0xffff) + (view.transport_length >> 16);
	/* In pieces, so that the sum does not overflow. */
	for (uint32_t done = 0; done < view.transport_length; done += 1024) {
		uint32_t rest = view.transport_length - done;

		start = sum(start, transport + done, rest < 1024 ? rest : 1024);
	}
	put(transport + at, start);
	if (view.protocol == IPPROTO_UDP && !transport[at] && !transport[at + 1])
		memset(transport + at, 0xff, 2);
}

int packet_age(uint8_t *bytes)
{
	uint8_t *left = bytes + (bytes[0] >> 4 == 4 ? 8 : 7);

	if (*left <= 1)
		return 0;
	--*left;
	if (bytes[0] >> 4 == 4) {
		memset(bytes + 10, 0, 2);
		put(bytes + 10, sum(0, bytes, (bytes[0] & 15) * 4));
	}
	return 1;
}
