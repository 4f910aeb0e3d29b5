/* SPDX-License-Identifier: GPL-2.0-only OR MIT OR Apache-2.0 */
/* Finds addresses, ports and fragment identity in an Ethernet frame, with every access bounded
 * by the end of the data. */
#pragma once

#include "maps.h"

#define ETHERTYPE_IPV4 0x0800
#define ETHERTYPE_VLAN 0x8100
#define ETHERTYPE_QINQ 0x88a8
#define ETHERTYPE_IPV6 0x86dd

/* The bits of a tag that number the VLAN. */
#define VLAN_NUMBER 0xfff

#define PROTOCOL_HOPOPTS 0
#define PROTOCOL_ICMP 1
#define PROTOCOL_TCP 6
#define PROTOCOL_UDP 17
#define PROTOCOL_ROUTING 43
#define PROTOCOL_FRAGMENT 44
#define PROTOCOL_ICMPV6 58
#define PROTOCOL_DSTOPTS 60

#define TCP_FIN 0x01
#define TCP_SYN 0x02
#define TCP_RST 0x04
#define TCP_ACK 0x10

/* Packets with more extension headers than this before TCP or UDP go to the kernel: no program
 * needs them. */
#define MAX_EXTENSIONS 4

struct ethernet {
	__u8 destination[6];
	__u8 source[6];
	__be16 type;
};

/* With the first VLAN tag. */
struct tagged {
	__u8 destination[6];
	__u8 source[6];
	__be16 type;
	__be16 tag;
	__be16 inner_type;
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
	__be32 source;
	__be32 destination;
};

struct ipv6 {
	__u8 version_class_flow[4];
	__be16 payload_length;
	__u8 next_header;
	__u8 hop_limit;
	struct address source;
	struct address destination;
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
	__u8 behind;         /* an extension header follows a fragment header: what later fragments overlap may be the ports */
	__u32 l4;            /* where the transport header is in the frame; meaningless in a later fragment */
	__u32 limit;         /* where the packet ends, as its header says: what follows in the frame is padding */
};

/* The header does not say where the packet ends: one that the kernel has merged beyond 64 KB, or
 * a malformed one. */
#define NO_LIMIT 0xffffffff

/* Where a packet comes from: the program's context, of one of two kinds. */
struct frame {
	void *ctx;
	void *data;
	void *end;
	int xdp;
};

/* No header that the parser reads starts further on. */
#define MAX_OFFSET 0x3ff

/* The header of `size` bytes at an offset, or null. */
static __always_inline void *header_at(void *data, void *end, __u32 at, __u32 size)
{
	if (at > MAX_OFFSET)
		return 0;
	/* The compiler must not conclude that the mask is needless, nor take the pointer apart: the
	 * verifier needs both as they are. */
	asm volatile("" : "+r"(at));
	void *header = data + (at & MAX_OFFSET);
	asm volatile("" : "+r"(header));
	return header + size > end ? 0 : header;
}

/* "::ffff:0.0.0.0" without its last word. */
#define MAPPED bpf_htonl(0x0000ffff)

static __always_inline void map_v4(struct address *to, __be32 octets)
{
	to->words[0] = 0;
	to->words[1] = 0;
	to->words[2] = MAPPED;
	to->words[3] = octets;
}

/* Whether this is an IPv4 address. */
static __always_inline int is_mapped(const struct address *address)
{
	return !(address->words[0] | address->words[1] | (address->words[2] ^ MAPPED));
}

/* The unspecified address of a family, as bound sockets have it. */
static __always_inline void any_address(struct address *to, __u8 family)
{
	to->words[0] = 0;
	to->words[1] = 0;
	to->words[2] = family == 4 ? MAPPED : 0;
	to->words[3] = 0;
}

static __always_inline enum verdict parse_ipv4(struct packet *p, const struct frame *f, __u32 at)
{
	struct ipv4 *ip = header_at(f->data, f->end, at, sizeof(*ip));
	if (!ip)
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
	p->later_fragment = (fragment & 0x1fff) != 0;
	p->first_fragment = !p->later_fragment && fragment & 0x2000;
	p->l4 = at + header;
	p->limit = ip->total_length ? at + bpf_ntohs(ip->total_length) : NO_LIMIT;
	return FOUND;
}

/* What a walk over extension headers found, as one number. 0: the packet ends too early, or there
 * are too many. */
#define WALKED(at, next, first, later, behind, id)                                                                     \
	((__u64)(id) << 32 | 1u << 31 | (__u32)(first) << 30 | (__u32)(later) << 29 | (__u32)(behind) << 28 |          \
	 (__u32)(next) << 16 | (at))

static __always_inline int is_extension(__u8 next)
{
	return next == PROTOCOL_FRAGMENT || next == PROTOCOL_HOPOPTS || next == PROTOCOL_DSTOPTS || next == PROTOCOL_ROUTING;
}

/* Of a Routing header that was read as a fragment header: the second byte of `offset_more`. */
#define SEGMENTS_LEFT(header) (bpf_ntohs((header).offset_more) & 0xff)

/* Walks over IPv6 extension headers from an offset on. Rare, so it may cost more: a global
 * function, which the verifier checks once and by itself. As part of the programs each of its paths
 * would multiply theirs.
 * It ends at a Routing header with segments left: the packet is for the hosts that this header
 * lists (RFC 8200 section 4.4), so it is of the protocol ROUTING, which none can claim. */
#define DEFINE_WALK(name, context, load)                                                                               \
	__attribute__((noinline)) __u64 name(context *ctx, __u32 at, __u32 next)                                       \
	{                                                                                                              \
		__u32 first = 0, id = 0, fragment = 0, behind = 0;                                                     \
		for (int i = 0; i < MAX_EXTENSIONS; i++) {                                                             \
			struct ipv6_fragment header;                                                                   \
			if (!is_extension(next))                                                                       \
				break;                                                                                 \
			if (at > MAX_OFFSET || load(ctx, at, &header, sizeof(header)))                                 \
				return 0;                                                                              \
			behind = fragment;                                                                             \
			if (next == PROTOCOL_ROUTING && SEGMENTS_LEFT(header))                                         \
				break;                                                                                 \
			if (next == PROTOCOL_FRAGMENT) {                                                               \
				fragment = 1;                                                                          \
				__u16 offset_more = bpf_ntohs(header.offset_more);                                     \
				id = header.id;                                                                        \
				at += sizeof(header);                                                                  \
				if (offset_more & 0xfff8)                                                              \
					return at > MAX_OFFSET ? 0 : WALKED(at, header.next_header, 0, 1, behind, id); \
				first |= offset_more & 1;                                                              \
			} else {                                                                                       \
				/* The length is in 8 bytes, the first 8 not counted. */                              \
				at += (header.reserved + 1) * 8;                                                       \
			}                                                                                              \
			next = header.next_header;                                                                     \
		}                                                                                                      \
		return at > MAX_OFFSET ? 0 : WALKED(at, next, first, 0, behind, id);                                   \
	}

DEFINE_WALK(walk_xdp, struct xdp_md, bpf_xdp_load_bytes)
DEFINE_WALK(walk_skb, struct __sk_buff, bpf_skb_load_bytes)

static __always_inline enum verdict parse_ipv6(struct packet *p, const struct frame *f, __u32 at)
{
	struct ipv6 *ip = header_at(f->data, f->end, at, sizeof(*ip));
	if (!ip || ip->version_class_flow[0] >> 4 != 6)
		return MALFORMED;
	/* It would pass for that IPv4 address in every table; on a wire there is none (RFC 6890
	 * section 2.2.3). */
	if (is_mapped(&ip->source) || is_mapped(&ip->destination))
		return MALFORMED;
	p->source = ip->source;
	p->destination = ip->destination;
	p->family = 6;
	p->protocol = ip->next_header;
	p->l4 = at + sizeof(*ip);
	p->limit = ip->payload_length ? p->l4 + bpf_ntohs(ip->payload_length) : NO_LIMIT;
	if (is_extension(p->protocol)) {
		__u64 walked = f->xdp ? walk_xdp(f->ctx, p->l4, p->protocol) : walk_skb(f->ctx, p->l4, p->protocol);
		if (!walked)
			return MALFORMED;
		p->l4 = walked & MAX_OFFSET;
		p->protocol = walked >> 16;
		p->later_fragment = walked >> 29 & 1;
		p->first_fragment = walked >> 30 & 1;
		p->behind = walked >> 28 & 1;
		p->fragment_id = walked >> 32;
	}
	return FOUND;
}

/* What follows the IP header of either family. */
static __always_inline enum verdict parse_ports(struct packet *p, const struct frame *f)
{
	if (p->protocol != PROTOCOL_TCP && p->protocol != PROTOCOL_UDP)
		return OTHER;
	/* All headers lie before this point, so that one comparison is for all of them. */
	if (p->l4 + (p->later_fragment ? 0 : sizeof(struct transport)) > p->limit)
		return MALFORMED;
	if (p->later_fragment)
		return FOUND;
	struct transport *t = header_at(f->data, f->end, p->l4, sizeof(*t));
	if (!t)
		return MALFORMED;
	p->source_port = t->source_port;
	p->destination_port = t->destination_port;
	return FOUND;
}

/* Describes the packet whose IP header, of the family that the caller knows, is at an offset. `p`
 * must be all zero. */
static __always_inline enum verdict parse_ip(struct packet *p, const struct frame *f, __u32 at, __u8 family)
{
	enum verdict verdict = family == 4 ? parse_ipv4(p, f, at) : parse_ipv6(p, f, at);
	return verdict == FOUND ? parse_ports(p, f) : verdict;
}

static __always_inline int is_tag(__u16 type)
{
	return type == ETHERTYPE_VLAN || type == ETHERTYPE_QINQ;
}

/* Describes the frame. `p` must be all zero. OTHER with a family: IP with another protocol. */
static __always_inline enum verdict parse(struct packet *p, const struct frame *f)
{
	struct ethernet *eth = f->data;
	if ((void *)(eth + 1) > f->end)
		return MALFORMED;
	__u16 type = bpf_ntohs(eth->type);
	if (type == ETHERTYPE_IPV4)
		return parse_ip(p, f, sizeof(*eth), 4);
	if (type == ETHERTYPE_IPV6)
		return parse_ip(p, f, sizeof(*eth), 6);
	return OTHER;
}

#define XDP_FRAME(context)                                                                                             \
	{.ctx = (context), .data = (void *)(long)(context)->data, .end = (void *)(long)(context)->data_end, .xdp = 1}
#define SKB_FRAME(context)                                                                                             \
	{.ctx = (context), .data = (void *)(long)(context)->data, .end = (void *)(long)(context)->data_end, .xdp = 0}

static __always_inline int is_multicast(const struct packet *p)
{
	return p->family == 4 ? (p->destination.words[3] & bpf_htonl(0xf0000000)) == bpf_htonl(0xe0000000)
			      : (p->destination.words[0] & bpf_htonl(0xff000000)) == bpf_htonl(0xff000000);
}

static __always_inline int same_address(const struct address *a, const struct address *b)
{
	return !((a->words[0] ^ b->words[0]) | (a->words[1] ^ b->words[1]) | (a->words[2] ^ b->words[2]) |
		 (a->words[3] ^ b->words[3]));
}

static __always_inline void fragment_key(struct fragment_key *key, const struct packet *p, __u32 lane)
{
	memset(key, 0, sizeof(*key));
	key->source = p->source;
	key->destination = p->destination;
	key->id = p->fragment_id;
	key->lane = lane;
	key->protocol = p->protocol;
}

/* The entry of the first fragment of a later fragment's datagram, if that has arrived recently. */
static __always_inline struct fragment_value *first_of(void *map, const struct fragment_key *key)
{
	struct fragment_value *first = bpf_map_lookup_elem(map, key);
	return first && bpf_ktime_get_ns() - first->seen_ns < FRAGMENT_LIFE_NS ? first : 0;
}
