/* SPDX-License-Identifier: GPL-2.0-only OR MIT OR Apache-2.0 */
/* guard: on the TAP device of a lane, behind the program's write. Lets out TCP and UDP over IPv4
 * and IPv6 whose source address and Ethernet address are the host's and whose source port the lane
 * owns. Everything else is dropped and counted by reason. */
#pragma once

#include "capture.h"
#include "merged.h"
#include "packet.h"

static __always_inline struct flow_key flow_out(const struct packet *p)
{
	return (struct flow_key){
		.local = p->source,
		.remote = p->destination,
		.local_port = p->source_port,
		.remote_port = p->destination_port,
		.protocol = p->protocol,
	};
}

/* Whether the packet belongs to one of the lane's flows. A global function for the verifier's
 * sake; rare. */
__attribute__((noinline)) int is_of_flow(struct packet *p, __u32 lane)
{
	if (!p)
		return 0;
	struct flow_key key = flow_out(p);
	struct flow_value *holder = bpf_map_lookup_elem(&flows, &key);
	return holder && holder->lane == lane;
}

/* Whether a share of the source port covers the packet's destination. */
static __always_inline int covers(const struct owned_value *value, struct packet *p, __u32 lane)
{
	if (value->share == OWNED_WHOLE)
		return 1;
	if (value->share == OWNED_ONE)
		return value->remote_port == p->destination_port && same_address(&value->remote, &p->destination);
	return is_of_flow(p, lane);
}

static __always_inline int owns(struct packet *p, __u32 lane)
{
	struct owned_key key = {.local = p->source, .lane = lane, .port = p->source_port, .protocol = p->protocol};
	__u32 kinds = kinds_of(p->protocol, p->source_port);
	struct owned_value *value = 0;
	if (kinds & PORT_OWNED)
		value = bpf_map_lookup_elem(&owned, &key);
	if (value && covers(value, p, lane))
		return 1;
	if (!(kinds & PORT_OWNED_ANY))
		return 0;
	any_address(&key.local, p->family);
	value = bpf_map_lookup_elem(&owned, &key);
	return value && covers(value, p, lane);
}

/* A lane answers a SYN. The SYN may be between the ends of another lane's flow, which stays that
 * lane's until the peer has seen this answer (RFC 9293 section 3.5). A global function for the
 * verifier's sake; rare. */
__attribute__((noinline)) int note_answer(struct packet *p, __u32 lane, __u32 sequence, __u32 acknowledged)
{
	if (!p)
		return 0;
	struct flow_key key = flow_out(p);
	struct flow_value *value = bpf_map_lookup_elem(&flows, &key);
	if (!value || !value->lane || value->lane == lane)
		return 0;
	value->next = acknowledged;
	set_progress(value, HANDSHAKE_ANSWERED, sequence + 1);
	return 1;
}

/* Notes a frame that answers a SYN, and returns the NIC by which it leaves. The lane may know the
 * path to the peer only from the SYN, which may be forged. So an answer that can end another lane's
 * flow takes the host's path to the peer, as the flow does. */
static __always_inline __u32 see_answer(struct packet *p, const struct frame *f, __u32 lane, __u32 nic)
{
	if (p->protocol != PROTOCOL_TCP)
		return nic;
	__u8 *tcp = header_at(f->data, f->end, p->l4, 14);
	/* Flags in the padding are none: the peer does not see them. */
	if (!tcp || p->l4 + 14 > p->limit || (tcp[13] & (TCP_SYN | TCP_ACK)) != (TCP_SYN | TCP_ACK) ||
	    !(kinds_of(p->protocol, p->source_port) & PORT_FLOWS))
		return nic;
	if (!note_answer(p, lane, bpf_ntohl(*(__be32 *)(tcp + 4)), bpf_ntohl(*(__be32 *)(tcp + 8))))
		return nic;
	struct ethernet *eth = f->data;
	struct hop_value *hop = bpf_map_lookup_elem(&hops, (struct hop_key *)&p->source);
	if (!hop || (void *)(eth + 1) > f->end)
		return nic;
	/* The noted path may name a NIC that is no longer accelerated, or has another address now.
	 */
	struct source_key source = {.address = p->source};
	memcpy(source.mac, hop->source, 6);
	__u32 *owner = bpf_map_lookup_elem(&sources, &source);
	if (!owner || *owner != hop->nic)
		return nic;
	memcpy(eth->destination, hop->destination, 6);
	memcpy(eth->source, hop->source, 6);
	return hop->nic;
}

/* The NIC that a frame may leave by; 0: refused, for `reason`. */
static __always_inline __u32 check(struct packet *p, const struct frame *f, __u32 lane, enum refusal *reason)
{
	struct ethernet *eth = f->data;
	*reason = REFUSED_MALFORMED;
	if ((void *)(eth + 1) > f->end)
		return 0;
	enum verdict verdict = parse(p, f);
	/* The stack always states where its packets end. */
	if (verdict == MALFORMED || p->limit == NO_LIMIT)
		return 0;
	/* Ports behind further extension headers could be overwritten by a later fragment, which
	 * need not name the same protocol. Our stack makes no such fragments. */
	*reason = REFUSED_FRAGMENT;
	if (p->behind)
		return 0;
	*reason = REFUSED_PROTOCOL;
	if (verdict != FOUND)
		return 0;
	/* An option of IPv4 may be a source route, which names further hosts (RFC 791 section
	 * 3.1). Our stack sends none. */
	if (p->family == 4 && p->l4 != sizeof(*eth) + sizeof(struct ipv4))
		return 0;
	*reason = REFUSED_SOURCE;
	struct source_key source = {.address = p->source};
	memcpy(source.mac, eth->source, 6);
	__u32 *nic = bpf_map_lookup_elem(&sources, &source);
	if (!nic)
		return 0;
	struct fragment_key key;
	if (p->later_fragment) {
		*reason = REFUSED_FRAGMENT;
		fragment_key(&key, p, lane);
		return first_of(&fragments_out, &key) ? *nic : 0;
	}
	*reason = REFUSED_PORT;
	if (!owns(p, lane))
		return 0;
	__u32 leaves_by = see_answer(p, f, lane, *nic);
	if (p->first_fragment) {
		struct fragment_value value = {.seen_ns = bpf_ktime_get_ns(), .lane = lane};
		fragment_key(&key, p, lane);
		bpf_map_update_elem(&fragments_out, &key, &value, BPF_ANY);
	}
	return leaves_by;
}

static __always_inline void count_out(__u32 lane, __u32 nic, enum refusal reason, __u64 packets, __u64 bytes)
{
	__u32 place = place_of(lane);
	struct lane_counters *c = bpf_map_lookup_elem(&lane_counters, &place);
	if (!c)
		return;
	if (nic) {
		c->out_packets += packets;
		c->out_bytes += bytes;
	} else {
		c->refused[reason & (REFUSALS - 1)] += packets;
	}
}

/* The shortest frame on an Ethernet, without its checksum (IEEE 802.3). Drivers pad socket buffers,
 * but not all of them pad frames that XDP redirects. */
#define LEAST_FRAME 60

/* Frames up to this length are let out without a look at the NIC's MTU: every host takes packets of
 * 576 bytes (RFC 791), and links of a smaller MTU are rare. There the kernel drops the frame where
 * it redirects it, counted as a lost one and not as a refusal (`TOO_LONG` in redirects.h). */
#define SURELY_SHORT 590

SEC("xdp.frags")
int guard(struct xdp_md *ctx)
{
	enum refusal reason;
	__u32 lane = ctx->ingress_ifindex, mtu = 0;
	__u32 length = bpf_xdp_get_buff_len(ctx);
	struct frame f = XDP_FRAME(ctx);
	struct packet p = {};
	__u32 nic = check(&p, &f, lane, &reason);
	if (nic && length > SURELY_SHORT && bpf_check_mtu(ctx, nic, &mtu, 0, 0)) {
		reason = REFUSED_LENGTH;
		nic = 0;
	}
	count_out(lane, nic, reason, 1, length);
	if (!nic)
		return XDP_DROP;
	if (capturing())
		capture_xdp(ctx, length, lane, 0);
	/* What is added is zero. A device without room for it has none for a driver either. */
	if (length < LEAST_FRAME && bpf_xdp_adjust_tail(ctx, LEAST_FRAME - (int)length))
		return XDP_DROP;
	return bpf_redirect_map(&nics, nic, XDP_DROP);
}

/* Lets a socket buffer out by a NIC, or refuses it. */
static __always_inline int let_out(struct __sk_buff *skb, __u32 lane, __u32 nic, enum refusal reason, struct merged m)
{
	count_out(lane, nic, reason, m.packets, m.bytes);
	if (!nic)
		return TC_ACT_SHOT;
	if (capturing())
		capture_skb(skb, skb->len, lane, 0);
	return bpf_redirect(nic, 0);
}

static __always_inline void pull_for_guard(struct __sk_buff *skb)
{
	if (skb->len > (__u32)(skb->data_end - skb->data))
		bpf_skb_pull_data(skb, skb->len < 192 ? skb->len : 192);
}

/* For NICs that cannot transmit redirected XDP frames. */
SEC("classifier")
int guard_tc(struct __sk_buff *skb)
{
	enum refusal reason = REFUSED_PROTOCOL;
	__u32 lane = skb->ifindex, nic = 0, mtu = 0;
	struct packet p = {};
	pull_for_guard(skb);
	struct frame f = SKB_FRAME(skb);
	if (!skb->vlan_present)
		nic = check(&p, &f, lane, &reason);
	if (nic && bpf_check_mtu(skb, nic, &mtu, 0, 0)) {
		reason = REFUSED_LENGTH;
		nic = 0;
	}
	return let_out(skb, lane, nic, reason, (struct merged){.packets = 1, .bytes = skb->len});
}

/* The bit by which the index of a lane's bulk device, for trains, differs from the lane. */
#define BULK_DEVICE (1u << 30)

/* The longest frame, and the least data of a segment: one write makes 256 packets at most. */
#define MOST_BYTES (14 + 65535)
#define LEAST_SEGMENT 256

/* Whether the checksum is left to the device (CHECKSUM_PARTIAL). The program would then choose
 * where it is written, behind this guard: over its source port, for instance. No helper reports
 * this; but one that changes checksums leaves such a one alone. */
static __always_inline int checksum_is_left(struct __sk_buff *skb, __u32 at)
{
	__be16 before = 0, after = 0;
	if (bpf_skb_load_bytes(skb, at, &before, sizeof(before)) || bpf_l4_csum_replace(skb, at, 0, bpf_htonl(1), 4) ||
	    bpf_skb_load_bytes(skb, at, &after, sizeof(after)))
		return 1;
	return before == after || bpf_skb_store_bytes(skb, at, &before, sizeof(before), 0);
}

/* The guard of a lane's bulk device, for trains: TCP segments that the program has put together
 * (virtio_net_hdr), and that the kernel segments on their way to the NIC, computing their
 * checksums. */
SEC("classifier")
int guard_bulk(struct __sk_buff *skb)
{
	enum refusal reason = REFUSED_PROTOCOL;
	__u32 lane = skb->ifindex & ~BULK_DEVICE, nic = 0, mtu = 0, segment = skb->gso_size;
	struct packet p = {};
	pull_for_guard(skb);
	struct frame f = SKB_FRAME(skb);
	if (!skb->vlan_present)
		nic = check(&p, &f, lane, &reason);
	struct merged m = merged(skb, &p, &f);
	if (nic && (p.protocol != PROTOCOL_TCP || p.later_fragment || p.first_fragment)) {
		reason = REFUSED_PROTOCOL;
		nic = 0;
	}
	__u32 longest = segment ? p.l4 + transport_header(&p, &f) + segment : skb->len;
	if (nic && (skb->len > MOST_BYTES || (segment && segment < LEAST_SEGMENT) || bpf_check_mtu(skb, nic, &mtu, 0, 0) < 0 ||
		    longest > mtu + sizeof(struct ethernet))) {
		reason = REFUSED_LENGTH;
		nic = 0;
	}
	if (nic && checksum_is_left(skb, p.l4 + 16)) {
		reason = REFUSED_CHECKSUM;
		nic = 0;
	}
	return let_out(skb, lane, nic, reason, m);
}

/* Behind the guard, attached so that it outlives the service: a lane without a guard lets nothing
 * into the host. */
SEC("classifier")
int drop_all(struct __sk_buff *skb)
{
	(void)skb;
	return TC_ACT_SHOT;
}

