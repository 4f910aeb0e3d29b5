/* SPDX-License-Identifier: GPL-2.0-only OR MIT OR Apache-2.0 */
// Completes the transmit timestamp of an NTP reply as late as possible, when the packet is handed
// to the device.
//
// The server writes two numbers into the reply: the true time at some moment into the transmit
// timestamp, and CLOCK_MONOTONIC at that moment, in ns, into the reference timestamp. The program
// adds the time since then to the transmit timestamp, and sets the reference timestamp to its whole
// second. It clears the UDP checksum, as RFC 768 allows over IPv4.
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
	// 2^32 / 10^9 = 4.294967296, in units of 2^-28: valid up to 0.2 s, error below 1e-9.
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
