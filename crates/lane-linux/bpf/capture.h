/* SPDX-License-Identifier: GPL-2.0-only OR MIT OR Apache-2.0 */
/* Copies of packets for `tickwire capture`: tcpdump cannot see packets that never reach the
 * kernel's stack. Costs one array lookup while no capture runs. */
#pragma once

#include "maps.h"

struct capture_record {
	__u64 monotonic_ns; /* CLOCK_MONOTONIC when the program saw it */
	__u32 lane;
	__u32 nic;       /* 0 for packets on their way out */
	__u32 length;    /* of the packet on the wire */
	__u32 captured;  /* bytes that follow */
	__u32 outgoing;
	__u32 pad;
};

/* A ring buffer reservation has a constant size: three sizes, so that small packets do not fill the
 * buffer. */
#define CAPTURE_SMALL 256
#define CAPTURE_MEDIUM 2048
#define CAPTURE_LARGE 9216

static __always_inline int capturing(void)
{
	return setting(SETTING_CAPTURE);
}

#define CAPTURE_SIZED(load, ctx, size)                                                                                 \
	do {                                                                                                           \
		struct capture_record *r = bpf_ringbuf_reserve(&capture, sizeof(*r) + (size), 0);                      \
		if (!r) {                                                                                              \
			count(HOST_CAPTURE_LOST);                                                                      \
			return 0;                                                                                      \
		}                                                                                                      \
		/* The verifier must see the very register that is passed to be bounded, also from below, which kernels */ \
		/* before 6.8 do not learn from a comparison with zero. */                                             \
		__u64 last = (__u64)(length < (size) ? length : (size)) - 1;                                           \
		asm volatile("" : "+r"(last));                                                                         \
		r->monotonic_ns = bpf_ktime_get_ns();                                                                  \
		r->lane = lane;                                                                                        \
		r->nic = nic;                                                                                          \
		r->length = length;                                                                                    \
		r->captured = last + 1;                                                                                \
		r->outgoing = nic == 0;                                                                                \
		r->pad = 0;                                                                                            \
		if (last >= (size)) {                                                                                  \
			bpf_ringbuf_discard(r, 0);                                                                     \
			return 0;                                                                                      \
		}                                                                                                      \
		asm volatile("" : "+r"(last));                                                                         \
		if (load(ctx, 0, r + 1, last + 1)) {                                                                   \
			bpf_ringbuf_discard(r, 0);                                                                     \
			return 0;                                                                                      \
		}                                                                                                      \
		bpf_ringbuf_submit(r, 0);                                                                              \
	} while (0)

/* Global functions: the verifier checks them once, and not with every program and every path to
 * them. */
#define DEFINE_CAPTURE(name, context, load)                                                                            \
	__attribute__((noinline)) int name(context *ctx, __u32 length, __u32 lane, __u32 nic)                  \
	{                                                                                                              \
		if (length <= CAPTURE_SMALL)                                                                           \
			CAPTURE_SIZED(load, ctx, CAPTURE_SMALL);                                                       \
		else if (length <= CAPTURE_MEDIUM)                                                                     \
			CAPTURE_SIZED(load, ctx, CAPTURE_MEDIUM);                                                      \
		else                                                                                                   \
			CAPTURE_SIZED(load, ctx, CAPTURE_LARGE);                                                       \
		return 0;                                                                                              \
	}

DEFINE_CAPTURE(capture_xdp, struct xdp_md, bpf_xdp_load_bytes)
DEFINE_CAPTURE(capture_skb, struct __sk_buff, bpf_skb_load_bytes)
