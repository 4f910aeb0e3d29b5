/* SPDX-License-Identifier: GPL-2.0-only OR MIT OR Apache-2.0 */
/* Stand-ins for the classifiers, for kernels before 6.6. There classifiers are legacy filters,
 * which outlive the service if it is killed: divert would continue to send the host's packets to
 * lanes, and a guard would let out what a program owned when no service looks after it any more. So
 * a stand-in is attached, which calls the real program through a table that the kernel empties as
 * soon as no process has it open. After that it passes the packet to what is next: the kernel's
 * stack, or drop_all. */
#pragma once
#include "helpers.h"

enum stand_in {
	STAND_IN_DIVERT_TC,
	STAND_IN_DIVERT_GROUPS,
	STAND_IN_GUARD_TC,
	STAND_IN_GUARD_BULK,
	STAND_INS,
};

struct {
	__uint(type, BPF_MAP_TYPE_PROG_ARRAY);
	__uint(max_entries, STAND_INS);
	__uint(key_size, sizeof(__u32));
	__uint(value_size, sizeof(__u32));
} stand_ins SEC(".maps");

SEC("classifier")
int alive_divert(struct __sk_buff *skb)
{
	bpf_tail_call(skb, &stand_ins, STAND_IN_DIVERT_TC);
	return TC_ACT_UNSPEC;
}

SEC("classifier")
int alive_groups(struct __sk_buff *skb)
{
	bpf_tail_call(skb, &stand_ins, STAND_IN_DIVERT_GROUPS);
	return TC_ACT_UNSPEC;
}

SEC("classifier")
int alive_guard(struct __sk_buff *skb)
{
	bpf_tail_call(skb, &stand_ins, STAND_IN_GUARD_TC);
	return TC_ACT_UNSPEC;
}

SEC("classifier")
int alive_guard_bulk(struct __sk_buff *skb)
{
	bpf_tail_call(skb, &stand_ins, STAND_IN_GUARD_BULK);
	return TC_ACT_UNSPEC;
}
