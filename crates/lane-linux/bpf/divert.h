/* SPDX-License-Identifier: GPL-2.0-only OR MIT OR Apache-2.0 */
/* divert: on the NIC. Packets for what an accelerated socket has claimed go to its lane, all others
 * to the kernel untouched.
 * Unicast: exact flow, then bound port; later fragments follow their first one; ICMP errors follow
 * the packet that they quote. A UDP datagram of which a fragment arrived before the first one goes
 * to the kernel: its owner was not known then, and the program has the kernel's socket, too.
 * Multicast (tc only, beside the XDP program where there is one): each member lane gets a copy, the
 * kernel keeps the original. Later fragments that arrive before their first one go to all lanes
 * that joined the group, at whichever port: the stack drops those that turn out not to be for it.
 */
#pragma once

#include "capture.h"
#include "merged.h"
#include "packet.h"
#include "ring.h"
#include "wake.h"

/* Whether `destination` and `mac` are this NIC's own: a port bound to any address claims no packet
 * that is only forwarded. */
static __always_inline int addressed_to_us(const struct address *destination, const __u8 *mac, __u32 nic)
{
	struct address_key key = {.address = *destination, .nic = nic};
	struct address_value *value = bpf_map_lookup_elem(&addresses, &key);
	if (!value)
		return 0;
	const __u16 *a = (const void *)value->mac, *b = (const void *)mac;
	return !((a[0] ^ b[0]) | (a[1] ^ b[1]) | (a[2] ^ b[2]));
}

/* One of the lanes that share a port: the one with the highest weight for this flow (rendezvous
 * hashing). A lane that joins or leaves moves the flows that become or were its own, and no others.
 * `chosen` of `tickwire-steer` computes the same. A global function for the verifier's sake. */
__attribute__((noinline)) __u32 choose_shared(struct port_value *value, __u32 flow, __u32 count)
{
	__u32 lane = 0, most = 0;
	if (!value)
		return 0;
	for (__u32 i = 0; i < MAX_SHARED; i++) {
		if (i >= count)
			break;
		__u32 weight = flow ^ value->lanes[i] * 0x9e3779b1u;
		weight ^= weight >> 16;
		weight *= 0x85ebca6bu;
		weight ^= weight >> 13;
		weight *= 0xc2b2ae35u;
		weight ^= weight >> 16;
		if (!lane || weight > most) {
			lane = value->lanes[i];
			most = weight;
		}
	}
	return lane;
}

/* The role of a packet in its connection (RFC 9293 section 3.1). */
enum kind {
	KIND_NONE,    /* no TCP */
	KIND_QUOTED,  /* one of ours, in an ICMP error */
	KIND_OPENS,   /* SYN alone */
	KIND_GOES_ON, /* ACK, and neither SYN nor RST */
	KIND_OTHER,   /* a RST, the answer to a SYN of ours, nonsense */
};

struct segment {
	enum kind kind;
	__u32 sequence;
	__u32 acknowledged;
};

static __always_inline struct segment segment_of(const struct packet *p, const struct frame *f)
{
	struct segment segment = {};
	if (p->protocol != PROTOCOL_TCP)
		return segment;
	__u8 *tcp = header_at(f->data, f->end, p->l4, 14);
	if (!tcp || p->l4 + 14 > p->limit)
		return segment;
	__u8 flags = tcp[13] & (TCP_FIN | TCP_SYN | TCP_RST | TCP_ACK);
	segment.sequence = bpf_ntohl(*(__be32 *)(tcp + 4));
	segment.acknowledged = bpf_ntohl(*(__be32 *)(tcp + 8));
	segment.kind = flags == TCP_SYN ? KIND_OPENS : (flags & ~TCP_FIN) == TCP_ACK ? KIND_GOES_ON : KIND_OTHER;
	return segment;
}

/* While a lane is joining: new connections go to the lane that they will belong to, all others stay
 * where they began. Established ones are in `flows`. */
__attribute__((noinline)) __u32 choose_joining(struct port_value *value, const struct flow_key *flow, __u32 hash, __u32 kind)
{
	if (!value || !flow)
		return 0;
	/* A copy on the stack: older verifiers accept no other key. */
	struct flow_key key = *flow;
	if (kind == KIND_OPENS) {
		__u32 lane = choose_shared(value, hash, value->count);
		bpf_map_update_elem(&handshakes, &key, &lane, BPF_ANY);
		return lane;
	}
	__u32 *begun = bpf_map_lookup_elem(&handshakes, &key);
	/* One of an earlier joining, perhaps of a lane that is gone, counts as none. */
	for (__u32 i = 0; begun && i < MAX_SHARED; i++)
		if (i < value->count && value->lanes[i] == *begun)
			return *begun;
	return choose_shared(value, hash, value->settled);
}

static __always_inline __u32 choose(struct port_value *value, const struct flow_key *flow, enum kind kind)
{
	if (value->count <= 1)
		return value->lanes[0];
	const __u32 *words = flow->remote.words;
	__u32 hash = (words[0] ^ words[1] ^ words[2] ^ words[3]) * 0x9e3779b1u ^ flow->remote_port * 0x85ebca6bu;
	hash ^= hash >> 15;
	if (value->settled < value->count)
		return choose_joining(value, flow, hash, kind);
	return choose_shared(value, hash, value->count);
}

/* The state of the kernel's connection between these ends, or else of its listener for one. 0:
 * neither. A connection that the kernel opens itself counts as none: with a flow of ours between
 * the same ends it cannot be established. */
static __always_inline __u32 kernels_state(const struct flow_key *flow, __u8 family, const struct frame *f)
{
	struct bpf_sock_tuple tuple = {};
	__u32 size = sizeof(tuple.ipv6);
	if (family == 4) {
		tuple.ipv4.saddr = flow->remote.words[3];
		tuple.ipv4.daddr = flow->local.words[3];
		tuple.ipv4.sport = flow->remote_port;
		tuple.ipv4.dport = flow->local_port;
		size = sizeof(tuple.ipv4);
	} else {
		memcpy(tuple.ipv6.saddr, flow->remote.words, sizeof(tuple.ipv6.saddr));
		memcpy(tuple.ipv6.daddr, flow->local.words, sizeof(tuple.ipv6.daddr));
		tuple.ipv6.sport = flow->remote_port;
		tuple.ipv6.dport = flow->local_port;
	}
	struct bpf_sock *sock = bpf_skc_lookup_tcp(f->ctx, &tuple, size, BPF_F_CURRENT_NETNS, 0);
	if (!sock)
		return 0;
	__u32 state = sock->state;
	bpf_sk_release(sock);
	return state == BPF_TCP_SYN_SENT ? 0 : state;
}

/* What a peer sends before an answer can reach it is at most this far after its SYN. */
#define EARLY (1u << 20)

/* Whether a segment between the ends of a lane's flow is of a connection that the peer opens, or
 * has opened, to the port's listener: `listener`, another lane, or the kernel (0). Once the peer
 * has opened it, the flow is removed. */
static __always_inline int is_listeners(struct flow_value *value, const struct flow_key *flow, const struct segment *segment, __u32 listener,
					__u8 family, const struct frame *f)
{
	__u32 state = listener ? BPF_TCP_LISTEN : kernels_state(flow, family, f);
	if (!state)
		return 0;
	/* The kernel knows which peers it has answered. But a connection in TIME-WAIT is over, and
	 * one in SYN-RECEIVED may be made of a SYN alone (RFC 7413). */
	if (state != BPF_TCP_LISTEN && state != BPF_TCP_NEW_SYN_RECV && state != BPF_TCP_SYN_RECV && state != BPF_TCP_TIME_WAIT) {
		bpf_map_delete_elem(&flows, flow);
		return 1;
	}
	__u64 progress = progress_of(value);
	__u32 handshake = progress, answer = progress >> 32;
	if (segment->kind == KIND_OPENS) {
		/* The guard sees a lane's answer. A SYN after the one that the kernel answers
		 * changes nothing. */
		if (!listener && (state != BPF_TCP_NEW_SYN_RECV || !handshake)) {
			value->next = segment->sequence + 1;
			set_progress(value, HANDSHAKE_ASKED, 0);
		}
		return 1;
	}
	if (segment->kind == KIND_QUOTED)
		return handshake > HANDSHAKE_ASKED && segment->sequence + 1 == answer;
	__u32 ahead = segment->sequence - value->next;
	int fits = handshake > HANDSHAKE_ASKED && segment->acknowledged == answer && ahead < EARLY;
	if (segment->kind == KIND_GOES_ON) {
		if (listener && fits && handshake == HANDSHAKE_ANSWERED)
			bpf_map_delete_elem(&flows, flow);
		if (!listener && !ahead)
			set_progress(value, HANDSHAKE_FOLLOWED, segment->acknowledged);
	}
	return fits || !ahead;
}

/* The lane that claimed the packets of a flow, 0 if none. A packet that is not addressed to this
 * NIC changes nothing. */
static __always_inline __u32 find_lane(const struct flow_key *flow, __u8 family, const struct segment *segment, const struct frame *f, __u32 nic)
{
	const struct ethernet *eth = f->data;
	__u32 kinds = kinds_of(flow->protocol, flow->local_port), holder = 0;
	struct flow_value *held = 0;
	if (!(kinds & (PORT_FLOWS | PORT_BOUND | PORT_ANY)) || !addressed_to_us(&flow->local, eth->destination, nic))
		return 0;
	if (kinds & PORT_FLOWS) {
		held = bpf_map_lookup_elem(&flows, flow);
		if (held) {
			holder = held->lane;
			if (!holder || (segment->kind != KIND_OPENS && !progress_of(held)))
				return holder;
		}
	}
	struct port_key port = {.local = flow->local, .port = flow->local_port, .protocol = flow->protocol};
	struct port_value *value = 0;
	if (kinds & PORT_BOUND)
		value = bpf_map_lookup_elem(&ports, &port);
	if (!value && kinds & PORT_ANY) {
		any_address(&port.local, family);
		value = bpf_map_lookup_elem(&ports, &port);
	}
	__u32 listener = value ? choose(value, flow, segment->kind) : 0;
	if (held && (listener == holder || !is_listeners(held, flow, segment, listener, family, f)))
		return holder;
	return listener;
}

/* The flow of the packet that an ICMP error quotes, seen from our side, and which segment it was
 * (RFC 792, RFC 4443 section 3). 0: it is none of ours. */
static __always_inline int quoted_flow(struct flow_key *flow, struct segment *segment, const struct packet *outer, const struct frame *f)
{
	__u8 *icmp = header_at(f->data, f->end, outer->l4, 8);
	if (!icmp || outer->l4 + 8 > outer->limit)
		return 0;
	if (outer->family == 4) {
		/* destination unreachable, time exceeded, parameter problem */
		if (outer->protocol != PROTOCOL_ICMP || (icmp[0] != 3 && icmp[0] != 11 && icmp[0] != 12))
			return 0;
	} else {
		/* destination unreachable, packet too big, time exceeded, parameter problem */
		if (outer->protocol != PROTOCOL_ICMPV6 || icmp[0] < 1 || icmp[0] > 4)
			return 0;
	}
	struct packet quoted = {};
	/* An error is too short to be cut (RFC 1812 section 4.3.2.3, RFC 4443 section 2.4), and its
	 * later fragments would not follow: the kernel gets all of one that was. */
	if (outer->first_fragment)
		return 0;
	if (parse_ip(&quoted, f, outer->l4 + 8, outer->family) != FOUND || quoted.later_fragment ||
	    !same_address(&quoted.source, &outer->destination) || quoted.l4 + sizeof(struct transport) > outer->limit)
		return 0;
	flow->local = quoted.source;
	flow->remote = quoted.destination;
	flow->local_port = quoted.source_port;
	flow->remote_port = quoted.destination_port;
	flow->protocol = quoted.protocol;
	__be32 *sequence = header_at(f->data, f->end, quoted.l4 + 4, sizeof(*sequence));
	if (quoted.protocol == PROTOCOL_TCP && sequence && quoted.l4 + 8 <= outer->limit) {
		segment->kind = KIND_QUOTED;
		segment->sequence = bpf_ntohl(*sequence);
	}
	return 1;
}

/* The lane that received the first fragment of a later fragment's datagram; 0, the kernel, also if
 * that has not arrived. Global functions, this and the next, for the verifier's sake; rare. */
__attribute__((noinline)) __u32 follow_first(struct packet *p)
{
	if (!p)
		return 0;
	struct fragment_key key;
	fragment_key(&key, p, 0);
	struct fragment_value *value = first_of(&fragments, &key);
	if (value && !value->early)
		return value->lane;
	count(HOST_STRAY_FRAGMENT);
	if (!value) {
		struct fragment_value early = {.seen_ns = bpf_ktime_get_ns(), .early = 1};
		bpf_map_update_elem(&fragments, &key, &early, BPF_ANY);
	}
	return 0;
}

/* Notes where a first fragment goes, and so the later ones of its datagram: to the lane that
 * claimed it or the kernel (0). If some arrived before it, the kernel has these. Then only the
 * kernel can reassemble the datagram, and the lane's program receives it by the kernel's socket.
 * For TCP the kernel's socket knows nothing of the connection, so a segment for the lane stays the
 * lane's, and is retransmitted. */
__attribute__((noinline)) __u32 lead(struct packet *p, __u32 lane)
{
	if (!p)
		return 0;
	struct fragment_key key;
	fragment_key(&key, p, 0);
	struct fragment_value *known = first_of(&fragments, &key);
	if (known && known->early && p->protocol == PROTOCOL_UDP)
		lane = 0;
	struct fragment_value value = {.seen_ns = bpf_ktime_get_ns(), .lane = lane};
	bpf_map_update_elem(&fragments, &key, &value, BPF_ANY);
	return lane;
}

/* The lane for a unicast frame, 0: it belongs to the kernel. */
static __always_inline __u32 find(struct packet *p, const struct frame *f, __u32 nic)
{
	struct ethernet *eth = f->data;
	__u32 lane = 0;
	enum verdict verdict = parse(p, f);
	if (verdict == MALFORMED || !p->family || is_multicast(p) || (void *)(eth + 1) > f->end)
		return 0;
	if (p->later_fragment) {
		if (verdict != FOUND)
			return 0;
		if (addressed_to_us(&p->destination, eth->destination, nic))
			lane = follow_first(p);
	} else {
		struct flow_key flow = {};
		struct segment segment = {};
		if (verdict == FOUND) {
			segment = segment_of(p, f);
			flow.local = p->destination;
			flow.remote = p->source;
			flow.local_port = p->destination_port;
			flow.remote_port = p->source_port;
			flow.protocol = p->protocol;
		} else if (!quoted_flow(&flow, &segment, p, f)) {
			return 0;
		}
		/* Later fragments of such a datagram name another protocol: its fragments cannot be
		 * matched. */
		lane = p->behind ? 0 : find_lane(&flow, p->family, &segment, f, nic);
	}
	if (p->first_fragment && (lane || addressed_to_us(&p->destination, eth->destination, nic)))
		lane = lead(p, lane);
	return lane;
}

/* Counts a frame that no lane takes. One whose tag carries only a priority XDP does not count: the
 * kernel takes the tag out, and `divert_groups` counts the frame. */
static __always_inline void count_passed(const struct frame *f)
{
	struct tagged *eth = f->data;
	if ((void *)(&eth->tag) <= f->end && is_tag(bpf_ntohs(eth->type))) {
		if (f->xdp && (void *)(eth + 1) <= f->end && !(bpf_ntohs(eth->tag) & VLAN_NUMBER))
			return;
		count(HOST_VLAN);
	}
	count(HOST_PASSED);
}

static __always_inline int divert_frame(struct xdp_md *ctx, int by_frame)
{
	struct packet p = {};
	__u32 nic = ctx->ingress_ifindex;
	struct frame f = XDP_FRAME(ctx);
	__u32 lane = find(&p, &f, nic);
	if (!lane) {
		count_passed(&f);
		return XDP_PASS;
	}
	__u32 length = bpf_xdp_get_buff_len(ctx);
	int put = rx_put_xdp(ctx, lane, length, by_frame ? RX_BY_FRAME : 0);
	/* A lane that has just gone: the kernel gets a packet that it does not know, as without
	 * divert. */
	if (put == RX_NO_LANE) {
		count(HOST_PASSED);
		return XDP_PASS;
	}
	rx_count(lane, put, 1, length);
	count(HOST_DIVERTED);
	if (capturing())
		capture_xdp(ctx, length, lane, nic);
	return put == RX_WAKE ? wake_xdp(ctx, lane, length) : XDP_DROP;
}

SEC("xdp.frags")
int divert(struct xdp_md *ctx)
{
	return divert_frame(ctx, wakes_by_frame());
}

/* For generic XDP. For a program that takes packets in fragments the kernel copies them without
 * their mac_len: every tc filter behind it (ours for groups, and others) would look for the
 * Ethernet header 14 bytes too late. */
SEC("xdp")
int divert_generic(struct xdp_md *ctx)
{
	return divert_frame(ctx, 1);
}

/* Headers that the parser may read: Ethernet, IPv6, four extensions, and a quoted packet. */
#define HEADERS 192

static __always_inline void pull_headers(struct __sk_buff *skb)
{
	__u32 have = (__u32)(skb->data_end - skb->data);
	if (have < HEADERS && have < skb->len)
		bpf_skb_pull_data(skb, skb->len < HEADERS ? skb->len : HEADERS);
}

/* Copies a group's datagram to one lane. Global functions, this and the next, for the verifier's
 * sake, as `walk_skb` is. */
__attribute__((noinline)) int copy_to_member(struct __sk_buff *skb, __u32 lane, struct merged *m)
{
	if (!m)
		return 0;
	int by_frame = !skb->gso_size && skb->len <= WAKE_COPY;
	int put = rx_put_skb(skb, lane, skb->len, rx_info(skb) | (by_frame ? RX_BY_FRAME : 0));
	if (put == RX_NO_LANE)
		return 0;
	count_more(HOST_GROUP_COPIES, m->packets);
	if (capturing())
		capture_skb(skb, skb->len, lane, skb->ifindex);
	rx_count(lane, put, m->packets, m->bytes);
	if (put == RX_WAKE && bpf_clone_redirect(skb, lane, 0))
		wake_by_ring(lane);
	return 0;
}

/* Counts an early fragment of a group's datagram: 0 if there are too many. A global function for
 * the verifier's sake; rare. */
__attribute__((noinline)) int may_be_early(struct group_value *any, struct packet *p)
{
	if (!any || !p)
		return 0;
	__u64 now = bpf_ktime_get_ns();
	if (now - any->since_ns >= FRAGMENT_LIFE_NS) {
		any->since_ns = now;
		any->early = 0;
	}
	if (any->early >= MOST_EARLY)
		return 0;
	struct fragment_key key;
	fragment_key(&key, p, 0);
	struct fragment_value *known = bpf_map_lookup_elem(&fragments, &key);
	if (known && now - known->seen_ns < FRAGMENT_LIFE_NS) {
		known->early += 1;
	} else {
		struct fragment_value value = {.seen_ns = now, .early = 1};
		/* Not over a first one that another processor has just noted: it has none to
		 * confirm. */
		if (bpf_map_update_elem(&fragments, &key, &value, known ? BPF_ANY : BPF_NOEXIST))
			return 1;
	}
	__sync_fetch_and_add(&any->early, 1);
	return 1;
}

/* Notes the first fragment of a group's datagram, also when no lane has `joined` at its port: its
 * later ones are then not taken for early ones. If lanes have, it confirms those that arrived
 * before. Concurrent counts of several processors may be wrong by a few, for a second. */
__attribute__((noinline)) int note_first(struct packet *p, __u32 nic, __u32 joined)
{
	if (!p)
		return 0;
	struct group_key group = {.group = p->destination, .nic = nic};
	struct group_value *any = bpf_map_lookup_elem(&groups, &group);
	if (!any)
		return 0;
	struct fragment_key key;
	fragment_key(&key, p, 0);
	struct fragment_value *known = first_of(&fragments, &key);
	if (known && !known->group_port && joined)
		any->early -= known->early < any->early ? known->early : any->early;
	struct fragment_value value = {.seen_ns = bpf_ktime_get_ns(), .group_port = p->destination_port};
	bpf_map_update_elem(&fragments, &key, &value, BPF_ANY);
	return 0;
}

/* The port of a group to which a later fragment goes, in network order; 0: its first one has not
 * arrived. A global function for the verifier's sake; rare. */
__attribute__((noinline)) __u32 group_port_of(struct packet *p)
{
	if (!p)
		return 0;
	struct fragment_key key;
	fragment_key(&key, p, 0);
	struct fragment_value *value = first_of(&fragments, &key);
	return value ? value->group_port : 0;
}

/* Copies of a group's datagram to the lanes that joined. */
__attribute__((noinline)) int copy_to_members(struct __sk_buff *skb, struct packet *p)
{
	if (!p || p->protocol != PROTOCOL_UDP)
		return 0;
	struct group_key key = {.group = p->destination, .nic = skb->ifindex, .port = p->destination_port};
	if (p->later_fragment)
		key.port = group_port_of(p);
	else if (!key.port)
		return 0;
	struct group_value *members = bpf_map_lookup_elem(&groups, &key);
	if (p->first_fragment)
		note_first(p, skb->ifindex, members != 0);
	if (!members)
		return 0;
	if (!key.port && !may_be_early(members, p)) {
		count(HOST_STRAY_FRAGMENT);
		return 0;
	}
	struct frame f = SKB_FRAME(skb);
	struct merged m = merged(skb, p, &f);
	for (__u32 i = 0; i < MAX_MEMBERS; i++) {
		if (i >= members->count)
			break;
		copy_to_member(skb, members->lanes[i], &m);
	}
	if (members->count > MAX_MEMBERS)
		count(HOST_STRAY_FRAGMENT);
	return 0;
}

/* Whether a packet is of another VLAN. A tag with the number 0 carries only a priority: to Linux,
 * such a packet is untagged. */
static __always_inline int of_other_vlan(struct __sk_buff *skb)
{
	return skb->vlan_present && (skb->vlan_tci & VLAN_NUMBER);
}

/* Unicast and multicast. A function, so that the programs use nothing of the stack themselves, of
 * which there are 512 bytes. */
__attribute__((noinline)) int divert_skb(struct __sk_buff *skb)
{
	struct packet p = {};
	pull_headers(skb);
	struct frame f = SKB_FRAME(skb);
	__u32 lane = find(&p, &f, skb->ifindex);
	if (lane) {
		int put = rx_put_skb(skb, lane, skb->len, rx_info(skb) | RX_BY_FRAME);
		/* A lane that has just gone, as in `divert_frame`. */
		if (put == RX_NO_LANE) {
			count(HOST_PASSED);
			return TC_ACT_UNSPEC;
		}
		struct merged m = merged(skb, &p, &f);
		rx_count(lane, put, m.packets, m.bytes);
		count_more(HOST_DIVERTED, m.packets);
		if (capturing())
			capture_skb(skb, skb->len, lane, skb->ifindex);
		return put == RX_WAKE ? wake_skb(skb, lane) : TC_ACT_SHOT;
	}
	/* The ports are known, or there are none: not so in a malformed packet. */
	if (is_multicast(&p) && (p.later_fragment ? p.l4 <= p.limit : p.destination_port))
		copy_to_members(skb, &p);
	/* Anew: kept until here, it would need more of the stack. */
	struct frame again = SKB_FRAME(skb);
	count_passed(&again);
	return TC_ACT_UNSPEC;
}

/* Multicast alone. A function for the same reason. */
__attribute__((noinline)) int divert_multicast(struct __sk_buff *skb)
{
	struct packet p = {};
	pull_headers(skb);
	struct frame f = SKB_FRAME(skb);
	if (parse(&p, &f) == FOUND && is_multicast(&p))
		copy_to_members(skb, &p);
	return TC_ACT_UNSPEC;
}

/* Beside the XDP program: multicast, and packets with a priority tag, which XDP has passed without
 * counting them. Other tagged packets are for another (VLAN) device. */
SEC("classifier")
int divert_groups(struct __sk_buff *skb)
{
	if (of_other_vlan(skb))
		return TC_ACT_UNSPEC;
	return skb->vlan_present ? divert_skb(skb) : divert_multicast(skb);
}

/* Without an XDP program (attach mode "tc"). */
SEC("classifier")
int divert_tc(struct __sk_buff *skb)
{
	if (of_other_vlan(skb)) {
		count(HOST_VLAN);
		count(HOST_PASSED);
		return TC_ACT_UNSPEC;
	}
	return divert_skb(skb);
}
