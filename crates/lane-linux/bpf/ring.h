/* SPDX-License-Identifier: GPL-2.0-only OR MIT OR Apache-2.0 */
/* Delivery to a lane: one copy of the frame into the lane's BPF ring buffer, which the program has
 * mapped read-only. crates/lane/src/record_ring reads what is written here.
 * A reservation has a constant size, so frames go into size classes. After a frame its record holds
 * what an earlier record of the same lane left there.
 * A sleeping consumer is woken only if it had caught up with the record. A polling one never has
 * (see record_ring), so it costs no wakeup. The lowest bits of the consumer position, which
 * counts in eights, say which thread is to be woken. The ring buffer itself wakes by an interrupt
 * to its own processor, which took 4 us in a virtual machine: longer than all else that is done for
 * a packet. So, where it is possible, the packet continues to the lane's TAP device as a *wake
 * frame*, which wakes threads that poll the device's descriptor. Its contents are not used. */
#pragma once

#include "wake.h"

/* What precedes the frame in a record. */
struct rx_record {
	__u64 arrival_ns; /* CLOCK_MONOTONIC, when divert saw the frame */
	__u32 length;     /* bytes of the frame */
	__u16 segment;    /* payload bytes of each packet that was merged into this frame, 0: it is one packet */
	__u16 flags;
	__u32 nic; /* by which the frame came */
	__u32 unused;
};

/* The checksum of the packet was verified by the network card or the kernel, or never computed
 * because the packet did not cross a wire. */
#define RX_CHECKSUM_GOOD 1
/* The frame comes from a socket buffer: its transport checksum may have been left to a device
 * (CHECKSUM_PARTIAL). */
#define RX_CHECKSUM_MAYBE_PARTIAL 2

/* Not for the reader: the caller wakes the lane, if it is to be woken; else the ring does. */
#define RX_BY_FRAME (1u << 31)

/* In the consumer position: the standby thread is woken, or none is, because one polls. */
#define RX_STANDBY 1
#define RX_POLLED 2

/* The longest frame: Ethernet header, VLAN tag and the longest IP packet, rounded up. */
#define RX_LONGEST (65536 + 64)

/* What became of a frame for a lane. */
#define RX_NO_LANE -1
#define RX_LOST 0 /* no room */
#define RX_PUT 1
#define RX_WAKE 2 /* it is there, and the lane is to be woken */

#define RX_WAKES_OTHERWISE (RX_STANDBY | RX_POLLED)

/* The consumer position, if a record that begins at `before`, or after it, wakes a thread; else
 * RX_POLLED. */
static __always_inline __u64 waking_position(void *ring, __u64 before)
{
	__u64 position = bpf_ringbuf_query(ring, BPF_RB_CONS_POS);
	return (__s64)((position & ~7ull) - before) < 0 ? RX_POLLED : position;
}

/* The consumer position is read twice. After the record is submitted: a thread that has armed the
 * ring by then either is seen here, or sees the record before it sleeps. And before: another thread
 * may take the record in, and write that none is to be woken, before this processor reads again.
 * Another processor may reserve a record between the read of the producer position and the
 * reservation. Then the lane may be woken once too often, but it is never left asleep: the consumer
 * has caught up with no later position than this record's. Submitting is a full memory barrier. */
#define RX_PUT_SIZED(load, ctx, from, size)                                                                                  \
	do {                                                                                                           \
		__u64 before = bpf_ringbuf_query(ring, BPF_RB_PROD_POS);                                               \
		__u64 position = waking_position(ring, before);                                                        \
		struct rx_record *r = bpf_ringbuf_reserve(ring, sizeof(*r) + (size), 0);                               \
		if (!r)                                                                                                \
			return RX_LOST;                                                                                \
		/* The verifier must see the very register that is passed to be bounded, also from below, which kernels */ \
		/* before 6.8 do not learn from a comparison with zero. */                                             \
		__u64 last = (__u64)length - 1;                                                                        \
		asm volatile("" : "+r"(last));                                                                         \
		r->arrival_ns = bpf_ktime_get_ns();                                                                    \
		r->length = length;                                                                                    \
		r->segment = info;                                                                                     \
		r->flags = info >> 16;                                                                                 \
		r->nic = from;                                                                                         \
		r->unused = 0;                                                                                         \
		if (last >= (size)) {                                                                                  \
			bpf_ringbuf_discard(r, 0);                                                                     \
			return RX_LOST;                                                                                \
		}                                                                                                      \
		asm volatile("" : "+r"(last));                                                                         \
		if (load(ctx, 0, r + 1, last + 1)) {                                                                   \
			bpf_ringbuf_discard(r, 0);                                                                     \
			return RX_LOST;                                                                                \
		}                                                                                                      \
		bpf_ringbuf_submit(r, info & RX_BY_FRAME	     ? BPF_RB_NO_WAKEUP :                              \
				      position & RX_WAKES_OTHERWISE ? 0 :                                              \
								      BPF_RB_FORCE_WAKEUP);                            \
		if (position & RX_POLLED)                                                                              \
			position = waking_position(ring, before);                                                      \
		if (position & RX_POLLED)                                                                              \
			return RX_PUT;                                                                                 \
		if (position & RX_STANDBY) {                                                                           \
			wake_standby(lane);                                                                            \
			return RX_PUT;                                                                                 \
		}                                                                                                      \
		return info & RX_BY_FRAME ? RX_WAKE : RX_PUT;                                                               \
	} while (0)

/* Puts a frame into a lane's ring, and returns what became of it. `info`: segment in the lower
 * half, flags in the upper. Global functions: the verifier checks them once. The classes leave room
 * for the record's header and the ring buffer's, 32 bytes together. */
#define DEFINE_RX_PUT(name, context, load, from)                                                                             \
	__attribute__((noinline)) int name(context *ctx, __u32 lane, __u32 length, __u32 info)                         \
	{                                                                                                              \
		__u32 place = place_of(lane);                                                                          \
		void *ring = bpf_map_lookup_elem(&rings, &place);                                                      \
		if (!ring)                                                                                             \
			return RX_NO_LANE;                                                                             \
		if (length <= 128 - 32)                                                                                \
			RX_PUT_SIZED(load, ctx, from, 128 - 32);                                                             \
		if (length <= 256 - 32)                                                                                \
			RX_PUT_SIZED(load, ctx, from, 256 - 32);                                                             \
		if (length <= 768 - 32)                                                                                \
			RX_PUT_SIZED(load, ctx, from, 768 - 32);                                                             \
		if (length <= 1600 - 32)                                                                               \
			RX_PUT_SIZED(load, ctx, from, 1600 - 32);                                                            \
		if (length <= 3072 - 32)                                                                               \
			RX_PUT_SIZED(load, ctx, from, 3072 - 32);                                                            \
		if (length <= 9216 - 32)                                                                               \
			RX_PUT_SIZED(load, ctx, from, 9216 - 32);                                                            \
		if (length <= 24576 - 32)                                                                              \
			RX_PUT_SIZED(load, ctx, from, 24576 - 32);                                                           \
		if (length <= RX_LONGEST)                                                                              \
			RX_PUT_SIZED(load, ctx, from, RX_LONGEST);                                                           \
		return RX_LOST;                                                                                        \
	}

DEFINE_RX_PUT(rx_put_xdp, struct xdp_md, bpf_xdp_load_bytes, ctx->ingress_ifindex)
DEFINE_RX_PUT(rx_put_skb, struct __sk_buff, bpf_skb_load_bytes, ctx->ifindex)

/* Counts the packets for a lane, and those of them that were lost. */
static __always_inline void rx_count(__u32 lane, int put, __u64 packets, __u64 bytes)
{
	__u32 place = place_of(lane);
	struct lane_counters *c = bpf_map_lookup_elem(&lane_counters, &place);
	if (!c)
		return;
	c->in_packets += packets;
	c->in_bytes += bytes;
	if (put <= RX_LOST)
		c->lost_packets += packets;
}

/* What divert knows of a socket buffer's checksum and segments, as `info`. Merged packets were
 * verified when they were merged, or come from a sender of this host that has left segmentation to
 * the device. */
static __always_inline __u32 rx_info(struct __sk_buff *skb)
{
	__u32 segment = skb->gso_size;
	if (segment || bpf_csum_level(skb, BPF_CSUM_LEVEL_QUERY) >= 0)
		return (__u32)RX_CHECKSUM_GOOD << 16 | (segment & 0xffff);
	return (__u32)RX_CHECKSUM_MAYBE_PARTIAL << 16;
}
