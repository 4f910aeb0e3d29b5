/* SPDX-License-Identifier: GPL-2.0-only OR MIT OR Apache-2.0 */
/* Waking a lane by a wake frame (see ring.h): the packet itself, of which a copy is in the ring,
 * continues to the lane's TAP device. */
#pragma once

#include "maps.h"

/* A packet is cut to this length first, so that none is too long for the device, and none is
 * segmented for it. */
#define WAKE_LENGTH 128

/* The longest datagram of a group that is copied for waking. */
#define WAKE_COPY 2048

/* Whether every interface that runs divert in native XDP can redirect from there. */
static __always_inline int wakes_by_frame(void)
{
	return setting(SETTING_WAKE_FRAMES);
}

/* Wakes by the ring buffer's interrupt after all. A global function; rare. */
__attribute__((noinline)) int wake_by_ring(__u32 lane)
{
	__u32 place = place_of(lane);
	void *ring = bpf_map_lookup_elem(&rings, &place);
	/* Without room there is a record that wakes, or has woken. */
	void *nothing = ring ? bpf_ringbuf_reserve(ring, 8, 0) : 0;
	if (nothing)
		bpf_ringbuf_discard(nothing, BPF_RB_FORCE_WAKEUP);
	return 0;
}

/* Wakes the standby thread of a lane: by the interrupt of a ring of its own, once until it has
 * drained that. No thread sleeps on the lane's device then, and none polls: that is rare. A global
 * function. */
__attribute__((noinline)) int wake_standby(__u32 lane)
{
	__u32 place = place_of(lane);
	void *ring = bpf_map_lookup_elem(&standby_rings, &place);
	void *nothing = ring ? bpf_ringbuf_reserve(ring, 8, 0) : 0;
	if (nothing)
		bpf_ringbuf_discard(nothing, 0);
	return 0;
}

/* The action that an XDP program returns for a packet that wakes. */
static __always_inline int wake_xdp(struct xdp_md *ctx, __u32 lane, __u32 length)
{
	if (length > WAKE_LENGTH && bpf_xdp_adjust_tail(ctx, WAKE_LENGTH - (int)length)) {
		wake_by_ring(lane);
		return XDP_DROP;
	}
	return bpf_redirect(lane, 0);
}

/* The action that a tc program returns for a packet that wakes. */
static __always_inline int wake_skb(struct __sk_buff *skb, __u32 lane)
{
	if (skb->len > WAKE_LENGTH && bpf_skb_change_tail(skb, WAKE_LENGTH, 0)) {
		wake_by_ring(lane);
		return TC_ACT_SHOT;
	}
	return bpf_redirect(lane, 0);
}
