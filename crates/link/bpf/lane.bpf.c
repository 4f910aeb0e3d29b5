/* SPDX-License-Identifier: GPL-2.0-only OR MIT OR Apache-2.0 */
/* lane: on the program end. Everything that arrives goes into the program's AF_XDP ring. */
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

char _license[] SEC("license") = "Dual MIT/GPL";
