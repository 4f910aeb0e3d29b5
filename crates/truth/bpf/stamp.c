/* SPDX-License-Identifier: GPL-2.0-only OR MIT OR Apache-2.0 */
// Completes the transmit stamp of an NTP answer at the last moment: at the hand-over to the device.
//
// The server leaves two numbers in the answer: in the transmit stamp the true time at some moment,
// and in the reference stamp CLOCK_MONOTONIC at that moment, in ns. What has passed since is added
// to the one, and the other becomes the second in which the answer leaves. The answer's UDP
// checksum is taken away, as RFC 768 allows over IPv4.
#include <linux/bpf.h>
#include <linux/if_ether.h>
#include <linux/pkt_cls.h>

#define SEC(name) __attribute__((section(name), used))

static long (*skb_load)(const struct __sk_buff *, __u32, void *, __u32) = (void *)BPF_FUNC_skb_load_bytes;
static long (*skb_store)(struct __sk_buff *, __u32, const void *, __u32, __u64) = (void *)BPF_FUNC_skb_store_bytes;
static __u64 (*now_ns)(void) = (void *)BPF_FUNC_ktime_get_ns;

// Ethernet, IPv4 without options, UDP, NTP.
#define IP ETH_HLEN
#define UDP (IP + 20)
#define NTP (UDP + 8)
#define REFERENCE (NTP + 16)
#define TRANSMIT (NTP + 40)
#define LENGTH (NTP + 48)

SEC("classifier")
int stamp(struct __sk_buff *skb)
{
	__u8 ip[10], ports[4];
	__u64 reference, transmit, passed;
	const __u16 none = 0;

	if (skb->len < LENGTH || skb_load(skb, IP, ip, sizeof(ip)) || ip[0] != 0x45 || ip[9] != 17)
		return TC_ACT_OK;
	// From port 123.
	if (skb_load(skb, UDP, ports, sizeof(ports)) || ports[0] != 0 || ports[1] != 123)
		return TC_ACT_OK;
	if (skb_load(skb, REFERENCE, &reference, 8) || skb_load(skb, TRANSMIT, &transmit, 8))
		return TC_ACT_OK;
	transmit = __builtin_bswap64(transmit);
	passed = now_ns() - __builtin_bswap64(reference);
	// 2^32 / 10^9 = 4.294967296, in 2^-28ths: good for 0.2 s, and wrong by less than 1e-9.
	if (passed < 200000000)
		transmit += (passed * 1152921505ULL) >> 28;
	reference = __builtin_bswap64(transmit & 0xffffffff00000000ULL);
	transmit = __builtin_bswap64(transmit);
	skb_store(skb, UDP + 6, &none, 2, 0);
	skb_store(skb, REFERENCE, &reference, 8, 0);
	skb_store(skb, TRANSMIT, &transmit, 8, 0);
	return TC_ACT_OK;
}

char _license[] SEC("license") = "Dual MIT/GPL";
