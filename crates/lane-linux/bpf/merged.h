/* SPDX-License-Identifier: GPL-2.0-only OR MIT OR Apache-2.0 */
/* Packets that the kernel (GRO), the network card (LRO) or a hypervisor has merged into one. They
 * are split again on their way into a lane, so they are counted as the packets that they were. */
#pragma once

#include "packet.h"

/* How many packets one stands for, and their bytes with the headers of each. */
struct merged {
	__u32 packets;
	__u32 bytes;
};

#define UDP_HEADER 8
/* Without options; and the offset of the byte whose upper half is the header's length with them, in
 * words. */
#define TCP_HEADER 20
#define TCP_DATA_OFFSET 12

/* The length of the transport header, options included. */
static __always_inline __u32 transport_header(const struct packet *p, const struct frame *f)
{
	if (p->protocol != PROTOCOL_TCP)
		return UDP_HEADER;
	__u8 *offset = header_at(f->data, f->end, p->l4 + TCP_DATA_OFFSET, 1);
	return offset ? (*offset >> 4) * 4 : TCP_HEADER;
}

static __always_inline struct merged merged(struct __sk_buff *skb, const struct packet *p, const struct frame *f)
{
	struct merged m = {.packets = 1, .bytes = skb->len};
	__u32 size = skb->gso_size;
	if (!size)
		return m;
	__u32 headers = p->l4 + transport_header(p, f);
	if (skb->gso_segs)
		m.packets = skb->gso_segs;
	else if (skb->len > headers) /* virtio_net and xen-netfront, whose hypervisor has merged, say how long the parts are, not how many. */
		m.packets = (skb->len - headers + size - 1) / size;
	m.bytes += (m.packets - 1) * headers;
	return m;
}
