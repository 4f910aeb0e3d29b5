/* SPDX-License-Identifier: GPL-2.0-only OR MIT OR Apache-2.0 */
/* Whether this kernel's ring buffer withstands a consumer that writes any value into its position
 * (CVE-2024-41009, fixed in 6.10, 6.6.37, 6.1.97, 5.15.162, 5.10.221). Before the fix two
 * reservations could overlap, and the program that maps a lane's ring could make the kernel write
 * where it likes. The loader sets the consumer position to three quarters of the ring. Run by
 * BPF_PROG_TEST_RUN; attached to nothing. Nothing is written into what is reserved. */
#include "helpers.h"

#define RING_BYTES 16384
#define THREE_QUARTERS (RING_BYTES / 4 * 3)

struct {
	__uint(type, BPF_MAP_TYPE_RINGBUF);
	__uint(max_entries, RING_BYTES);
} probe_ring SEC(".maps");

SEC("xdp")
int probe(struct xdp_md *ctx)
{
	(void)ctx;
	void *first = bpf_ringbuf_reserve(&probe_ring, THREE_QUARTERS, 0);
	if (!first)
		return 2;
	void *second = bpf_ringbuf_reserve(&probe_ring, THREE_QUARTERS, 0);
	int overlaps = second != 0;
	if (second)
		bpf_ringbuf_discard(second, BPF_RB_NO_WAKEUP);
	bpf_ringbuf_discard(first, BPF_RB_NO_WAKEUP);
	return overlaps;
}

char _license[] SEC("license") = "Dual MIT/GPL";
