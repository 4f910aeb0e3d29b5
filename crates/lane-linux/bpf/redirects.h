/* SPDX-License-Identifier: GPL-2.0-only OR MIT OR Apache-2.0 */
/* Frames of lanes that the guard in XDP has let out, and that their NIC has not taken. Only two
 * tracepoints of the kernel report them: bpf_redirect_map returns before the driver has seen the
 * frame. */
#pragma once
#include "helpers.h"

/* The frames that a NIC has not taken. */
struct redirect_losses {
	__u64 lost;    /* all */
	__u64 refused; /* those that it will continue to refuse: for instance, on a processor that has no queue for it */
};

/* Those of each NIC. Its entry exists as long as the NIC is accelerated. */
struct {
	__uint(type, BPF_MAP_TYPE_HASH);
	__uint(max_entries, 256);
	__type(key, __u32);
	__type(value, struct redirect_losses);
} redirects SEC(".maps");

/* The fields of the kernel's structure that are read; the loader finds their offsets. */
struct net_device {
	int ifindex;
	char name[16];
} __attribute__((preserve_access_index));

/* Errors that say nothing about the next frame: the link is down, the frame was too long. */
#define LINK_IS_DOWN (-100)
#define TOO_LONG (-90)

static __always_inline int is_lane(const struct net_device *device)
{
	return device->name[0] == 't' && device->name[1] == 'w';
}

static __always_inline void note_loss(__u32 nic, __u32 frames, int error)
{
	struct redirect_losses *losses = bpf_map_lookup_elem(&redirects, &nic);
	if (!losses)
		return;
	__sync_fetch_and_add(&losses->lost, frames);
	if (error && error != LINK_IS_DOWN && error != TOO_LONG)
		__sync_fetch_and_add(&losses->refused, frames);
}

/* The driver has not taken frames: from, to, sent, dropped, error. Without an error its queue was
 * full. */
SEC("tp_btf/xdp_devmap_xmit")
int redirect_lost(__u64 *args)
{
	const struct net_device *from = (const struct net_device *)args[0], *to = (const struct net_device *)args[1];
	int dropped = (int)args[3];
	if (dropped > 0 && is_lane(from))
		note_loss(to->ifindex, dropped, (int)args[4]);
	return 0;
}

/* The kernel has not even called the driver: from, program, target, error, kind of map, map, index.
 */
SEC("tp_btf/xdp_redirect_err")
int redirect_refused(__u64 *args)
{
	const struct net_device *from = (const struct net_device *)args[0];
	if (is_lane(from))
		note_loss((__u32)args[6], 1, (int)args[3]);
	return 0;
}
