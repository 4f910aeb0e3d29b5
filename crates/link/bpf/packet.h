/* SPDX-License-Identifier: GPL-2.0-only OR MIT OR Apache-2.0 */
/* Finds addresses, ports and fragment identity in an Ethernet frame, with every access bounded by the end of the data. */
#pragma once

#include "maps.h"

#define ETHERTYPE_IPV4 0x0800
#define ETHERTYPE_VLAN 0x8100
#define ETHERTYPE_QINQ 0x88a8
#define ETHERTYPE_IPV6 0x86dd

#define PROTOCOL_HOPOPTS 0
#define PROTOCOL_ICMP 1
#define PROTOCOL_TCP 6
#define PROTOCOL_UDP 17
#define PROTOCOL_ROUTING 43
#define PROTOCOL_FRAGMENT 44
#define PROTOCOL_ICMPV6 58
#define PROTOCOL_DSTOPTS 60

/* More extension headers than this before TCP or UDP nobody needs; such packets go to the kernel. */
#define MAX_EXTENSIONS 4

struct ethernet {
	__u8 destination[6];
	__u8 source[6];
	__be16 type;
};

struct ipv4 {
	__u8 version_ihl;
	__u8 tos;
	__be16 total_length;
	__be16 id;
	__be16 fragment;
	__u8 ttl;
	__u8 protocol;
	__be16 checksum;
	__u8 source[4];
	__u8 destination[4];
};

struct ipv6 {
	__u8 version_class_flow[4];
	__be16 payload_length;
	__u8 next_header;
	__u8 hop_limit;
	struct address source;
	struct address destination;
};

struct ipv6_extension {
	__u8 next_header;
	__u8 length; /* in 8 bytes, the first 8 not counted */
};

struct ipv6_fragment {
	__u8 next_header;
	__u8 reserved;
	__be16 offset_more;
	__be32 id;
};

struct transport {
	__be16 source_port;
	__be16 destination_port;
};

enum verdict {
	FOUND,     /* the packet is described completely */
	MALFORMED, /* the data ends too early, or lengths contradict each other */
	OTHER,     /* not a packet of a kind that can be claimed */
	TAGGED,    /* VLAN tag */
};

struct packet {
	struct address source;
	struct address destination;
	__be16 source_port;
	__be16 destination_port;
	__u32 fragment_id;
	__u8 protocol;
	__u8 first_fragment; /* the ports are known, more of the datagram follows */
	__u8 later_fragment; /* no ports */
	__u8 family;         /* 4 or 6 */
};

static __always_inline void map_v4(struct address *to, const __u8 *octets)
{
	memset(to->bytes, 0, 10);
	to->bytes[10] = 0xff;
	to->bytes[11] = 0xff;
	memcpy(to->bytes + 12, octets, 4);
}

static __always_inline enum verdict parse_ports(struct packet *p, void *l4, void *end)
{
	struct transport *t = l4;
	if (p->protocol != PROTOCOL_TCP && p->protocol != PROTOCOL_UDP)
		return OTHER;
	if ((void *)(t + 1) > end)
		return MALFORMED;
	p->source_port = t->source_port;
	p->destination_port = t->destination_port;
	return FOUND;
}

/* `l4` is set whenever the verdict is FOUND or OTHER and the packet is not a later fragment. */
static __always_inline enum verdict parse_ipv4(struct packet *p, void *data, void *end, void **l4)
{
	struct ipv4 *ip = data;
	if ((void *)(ip + 1) > end)
		return MALFORMED;
	__u32 header = (ip->version_ihl & 0xf) * 4;
	if (ip->version_ihl >> 4 != 4 || header < sizeof(*ip))
		return MALFORMED;
	map_v4(&p->source, ip->source);
	map_v4(&p->destination, ip->destination);
	p->family = 4;
	p->protocol = ip->protocol;
	__u16 fragment = bpf_ntohs(ip->fragment);
	p->fragment_id = ip->id;
	if (fragment & 0x1fff) {
		p->later_fragment = 1;
		return p->protocol == PROTOCOL_TCP || p->protocol == PROTOCOL_UDP ? FOUND : OTHER;
	}
	p->first_fragment = fragment >> 13 & 1;
	*l4 = data + header;
	return parse_ports(p, *l4, end);
}

static __always_inline enum verdict parse_ipv6(struct packet *p, void *data, void *end, void **l4)
{
	struct ipv6 *ip = data;
	if ((void *)(ip + 1) > end)
		return MALFORMED;
	if (ip->version_class_flow[0] >> 4 != 6)
		return MALFORMED;
	p->source = ip->source;
	p->destination = ip->destination;
	p->family = 6;
	__u8 next = ip->next_header;
	void *cursor = ip + 1;
#pragma unroll
	for (int i = 0; i < MAX_EXTENSIONS; i++) {
		if (next == PROTOCOL_FRAGMENT) {
			struct ipv6_fragment *f = cursor;
			if ((void *)(f + 1) > end)
				return MALFORMED;
			__u16 offset_more = bpf_ntohs(f->offset_more);
			next = f->next_header;
			p->fragment_id = f->id;
			if (offset_more & 0xfff8) {
				p->later_fragment = 1;
				p->protocol = next;
				return next == PROTOCOL_TCP || next == PROTOCOL_UDP ? FOUND : OTHER;
			}
			p->first_fragment = offset_more & 1;
			cursor = f + 1;
		} else if (next == PROTOCOL_HOPOPTS || next == PROTOCOL_DSTOPTS || next == PROTOCOL_ROUTING) {
			struct ipv6_extension *e = cursor;
			if ((void *)(e + 1) > end)
				return MALFORMED;
			next = e->next_header;
			cursor += (e->length + 1) * 8;
		} else {
			break;
		}
	}
	p->protocol = next;
	*l4 = cursor;
	return parse_ports(p, cursor, end);
}

/* Describes the frame. `p` must be all zero. `l4` as in parse_ipv4. */
static __always_inline enum verdict parse(struct packet *p, void *data, void *end, void **l4)
{
	struct ethernet *eth = data;
	if ((void *)(eth + 1) > end)
		return MALFORMED;
	switch (bpf_ntohs(eth->type)) {
	case ETHERTYPE_IPV4:
		return parse_ipv4(p, eth + 1, end, l4);
	case ETHERTYPE_IPV6:
		return parse_ipv6(p, eth + 1, end, l4);
	case ETHERTYPE_VLAN:
	case ETHERTYPE_QINQ:
		return TAGGED;
	default:
		return OTHER;
	}
}

static __always_inline int is_multicast(const struct packet *p)
{
	return p->family == 4 ? p->destination.bytes[12] >> 4 == 0xe : p->destination.bytes[0] == 0xff;
}

static __always_inline int same_address(const struct address *a, const struct address *b)
{
	const __u64 *x = (const void *)a, *y = (const void *)b;
	return x[0] == y[0] && x[1] == y[1];
}

static __always_inline void fragment_key(struct fragment_key *key, const struct packet *p)
{
	memset(key, 0, sizeof(*key));
	key->source = p->source;
	key->destination = p->destination;
	key->id = p->fragment_id;
	key->protocol = p->protocol;
}
