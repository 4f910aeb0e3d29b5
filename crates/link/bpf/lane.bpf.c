/* SPDX-License-Identifier: GPL-2.0-only OR MIT OR Apache-2.0 */
/* lane: on the program end. Everything that arrives goes into the program's AF_XDP ring. */
#include "helpers.h"

struct {
	__uint(type, BPF_MAP_TYPE_XSKMAP);
	__uint(max_entries, 1);
	__type(key, __u32);
	__type(value, __u32);
} sockets SEC(".maps");

SEC("xdp.frags")
int lane(struct xdp_md *ctx)
{
	return bpf_redirect_map(&sockets, ctx->rx_queue_index, XDP_DROP);
}

char _license[] SEC("license") = "Dual MIT/GPL";
