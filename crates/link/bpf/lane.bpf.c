/* SPDX-License-Identifier: GPL-2.0-only OR MIT OR Apache-2.0 */
/* lane: on the program end. Everything that arrives goes into the program's AF_XDP ring.
 * bulk: on the bulk device beside it. Everything that the program writes goes out by the program end, which takes trains apart and sums up whatever the program has left
 * to be summed up, so that the guard behind it sees frames as they are. */
#include "helpers.h"

struct {
	__uint(type, BPF_MAP_TYPE_XSKMAP);
	__uint(max_entries, 1);
	__type(key, __u32);
	__type(value, __u32);
} sockets SEC(".maps");

/* With one instance of this program for many lanes: a lane's entry is its device's index and this mask, and the map has as many entries.
 * With an instance for each: 0. The kernel refuses to hand a packet to a socket of another device, so a wrong entry reveals nothing. */
volatile const __u32 slot_mask = 0;

SEC("xdp.frags")
int lane(struct xdp_md *ctx)
{
	return bpf_redirect_map(&sockets, ctx->ingress_ifindex & slot_mask, XDP_DROP);
}

/* The bit by which the index of a bulk device differs from that of its program end. */
#define BULK_DEVICE (1u << 30)

/* The longest frame, and the least data of a segment: one write makes 256 packets at most. */
#define MOST_BYTES (14 + 65535)
#define LEAST_SEGMENT 256

SEC("classifier")
int bulk(struct __sk_buff *skb)
{
	if (skb->len > MOST_BYTES || (skb->gso_size && skb->gso_size < LEAST_SEGMENT))
		return TC_ACT_SHOT;
	return bpf_redirect(skb->ifindex & ~BULK_DEVICE, 0);
}

char _license[] SEC("license") = "Dual MIT/GPL";
