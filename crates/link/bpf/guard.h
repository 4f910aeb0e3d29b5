/* SPDX-License-Identifier: GPL-2.0-only OR MIT OR Apache-2.0 */
/* guard: on the host end of a lane, out of the program's reach. Lets out TCP and UDP over IPv4 and IPv6 whose source address and
 * Ethernet address are the host's and whose source port the lane owns. Everything else is dropped and counted by reason. */
#pragma once

#include "capture.h"
#include "packet.h"

static __always_inline int owns(const struct packet *p, __u32 lane)
{
	struct owned_key key = {.local = p->source, .lane = lane, .port = p->source_port, .protocol = p->protocol};
	if (bpf_map_lookup_elem(&owned, &key))
		return 1;
	any_address(&key.local, p->family);
	return bpf_map_lookup_elem(&owned, &key) != 0;
}

/* The NIC that a frame may leave by; 0: refused, for `reason`. */
static __always_inline __u32 check(const struct frame *f, __u32 lane, enum refusal *reason)
{
	struct packet p = {};
	struct ethernet *eth = f->data;
	*reason = REFUSED_MALFORMED;
	if ((void *)(eth + 1) > f->end)
		return 0;
	enum verdict verdict = parse(&p, f);
	if (verdict == MALFORMED)
		return 0;
	*reason = REFUSED_PROTOCOL;
	if (verdict != FOUND)
		return 0;
	*reason = REFUSED_SOURCE;
	struct source_key source = {.address = p.source};
	memcpy(source.mac, eth->source, 6);
	__u32 *nic = bpf_map_lookup_elem(&sources, &source);
	if (!nic)
		return 0;
	if (p.first_fragment || p.later_fragment) {
		struct fragment_key key;
		struct fragment_value value = {.lane = lane};
		fragment_key(&key, &p);
		if (p.later_fragment) {
			*reason = REFUSED_FRAGMENT;
			struct fragment_value *first = bpf_map_lookup_elem(&fragments_out, &key);
			return first && first->lane == lane ? *nic : 0;
		}
		*reason = REFUSED_PORT;
		if (!owns(&p, lane))
			return 0;
		bpf_map_update_elem(&fragments_out, &key, &value, BPF_ANY);
		return *nic;
	}
	*reason = REFUSED_PORT;
	return owns(&p, lane) ? *nic : 0;
}

static __always_inline void count_out(__u32 lane, __u32 nic, enum refusal reason, __u64 bytes)
{
	struct lane_counters *c = bpf_map_lookup_elem(&lane_counters, &lane);
	if (!c)
		return;
	if (nic) {
		c->out_packets += 1;
		c->out_bytes += bytes;
	} else {
		c->refused[reason & (REFUSALS - 1)] += 1;
	}
}

SEC("xdp.frags")
int guard(struct xdp_md *ctx)
{
	enum refusal reason;
	__u32 lane = ctx->ingress_ifindex;
	__u32 length = bpf_xdp_get_buff_len(ctx);
	struct frame f = XDP_FRAME(ctx);
	__u32 nic = check(&f, lane, &reason);
	count_out(lane, nic, reason, length);
	if (!nic)
		return XDP_DROP;
	if (capturing())
		capture_xdp(ctx, length, lane, 0);
	return bpf_redirect_map(&nics, nic, XDP_DROP);
}

/* For NICs that cannot transmit redirected XDP frames. */
SEC("classifier")
int guard_tc(struct __sk_buff *skb)
{
	enum refusal reason;
	__u32 lane = skb->ifindex;
	if (skb->len > (__u32)(skb->data_end - skb->data))
		bpf_skb_pull_data(skb, skb->len < 192 ? skb->len : 192);
	struct frame f = SKB_FRAME(skb);
	__u32 nic = skb->vlan_present ? 0 : check(&f, lane, &reason);
	if (skb->vlan_present)
		reason = REFUSED_PROTOCOL;
	count_out(lane, nic, reason, skb->len);
	if (!nic)
		return TC_ACT_SHOT;
	if (capturing())
		capture_skb(skb, skb->len, lane, 0);
	return bpf_redirect(nic, 0);
}

/* Behind the guard, attached so that it outlives the service: a lane without a guard lets nothing into the host. */
SEC("classifier")
int drop_all(struct __sk_buff *skb)
{
	(void)skb;
	return TC_ACT_SHOT;
}

