/* SPDX-License-Identifier: GPL-2.0-only OR MIT OR Apache-2.0 */
/* Keys, values and maps that the service fills and the programs read. src/bpf/ mirrors every
 * struct here.
 * Addresses are 16 bytes, IPv4 as ::ffff:a.b.c.d; ports are in network byte order; a lane is named
 * by the interface index of its TAP device. All padding is explicit and zero, since a key is
 * compared as bytes. */
#pragma once

#include "helpers.h"

/* Words, because the compiler copies bytes one at a time. */
struct address {
	__u32 words[4];
};

/* One connection of one of our sockets. */
struct flow_key {
	struct address local;
	struct address remote;
	__be16 local_port;
	__be16 remote_port;
	__u8 protocol;
	__u8 pad[3];
};

/* One bound port; local is the bound address, or any (:: or ::ffff:0.0.0.0). */
struct port_key {
	struct address local;
	__be16 port;
	__u8 protocol;
	__u8 pad;
};

#define MAX_SHARED 8

/* The lanes that share a port (SO_REUSEPORT); one is chosen by the flow's hash. The last of them
 * may have joined recently: handshakes that were under way then are those of the `settled` first
 * ones. */
struct port_value {
	__u32 count;
	__u32 settled;
	__u32 lanes[MAX_SHARED];
};

/* One multicast group and port on one NIC; port 0: any, for fragments whose port is not known yet.
 * The stack filters sources. */
struct group_key {
	struct address group;
	__u32 nic;
	__be16 port;
	__u8 pad[2];
};

#define MAX_MEMBERS 16

struct group_value {
	__u32 count; /* of any port it may be more than there is room for: those beyond get no early fragments */
	__u32 lanes[MAX_MEMBERS];
	/* Of any port: early fragments copied since `since_ns` that no first one has confirmed. The
	 * service enters zero. */
	__u32 early;
	__u64 since_ns;
};

/* More early fragments of one group than this in FRAGMENT_LIFE_NS are copied only after first ones
 * have shown that earlier ones were for a lane. A flood of fragments that belong to no datagram
 * takes at most a quarter of the frames that a lane can receive into. It is eleven datagrams of 64
 * KB whose fragments arrive in reverse order. */
#define MOST_EARLY 512

/* What the fragments of one datagram have in common (RFC 791, RFC 8200 section 4.5); on their way
 * out also the lane, whose identifications are its own. */
struct fragment_key {
	struct address source;
	struct address destination;
	__u32 id;
	__u32 lane; /* 0 on the way in */
	__u8 protocol;
	__u8 pad[3];
};

/* An identification is reused after a while, perhaps for another socket's datagram. Fragments
 * follow the first one of their datagram for this time, far longer than one sender takes for a
 * datagram. */
#define FRAGMENT_LIFE_NS 1000000000ull

/* Where the later fragments of a datagram go: to the lane or the kernel, or, for a group's
 * datagram, to the members at this port, or at any. */
struct fragment_value {
	__u64 seen_ns; /* when the first one arrived; of early ones, when the earliest arrived */
	__u32 lane;    /* 0: the kernel's */
	__be16 group_port; /* 0: the first one has not arrived */
	__u16 early;       /* early fragments of the group's datagram; to one host: whether any arrived before the first one */
};

/* An address of ours on a NIC: packets to it may be diverted. */
struct address_key {
	struct address address;
	__u32 nic;
};

struct address_value {
	__u8 mac[6];
	__u8 pad[2];
};

/* A source address of the host's and a destination: the first fields of `struct packet`. */
struct hop_key {
	struct address source;
	struct address destination;
};

/* How the host reaches a peer: the Ethernet addresses, and the NIC to leave by. */
struct hop_value {
	__u8 destination[6];
	__u8 source[6];
	__u32 nic;
};

/* An address and Ethernet address that lanes may send from; the value is the NIC to leave by. */
struct source_key {
	struct address address;
	__u8 mac[6];
	__u8 pad[2];
};

/* A port that a lane may send from, at least to some remote ends. */
struct owned_key {
	struct address local;
	__u32 lane;
	__be16 port;
	__u8 protocol;
	__u8 pad;
};

/* How much of the port: all of it, connections to one remote end, or those that are in `flows`. A
 * port may have connections of several programs, and of the kernel. */
enum owned_share {
	OWNED_WHOLE = 1,
	OWNED_ONE = 2,
	OWNED_FLOWS = 3,
};

struct owned_value {
	struct address remote; /* of OWNED_ONE */
	__be16 remote_port;
	__u8 share;
	__u8 pad;
};

/* Why the guard refused a frame. */
enum refusal {
	REFUSED_MALFORMED, /* truncated or inconsistent headers */
	REFUSED_PROTOCOL,  /* not IPv4 or IPv6 with TCP or UDP, or VLAN-tagged */
	REFUSED_SOURCE,    /* source address or Ethernet address is not the host's */
	REFUSED_PORT,      /* source port is not the lane's */
	REFUSED_FRAGMENT,  /* later fragment without a first one */
	REFUSED_LENGTH,    /* longer than the NIC's MTU, or cut into too many packets */
	REFUSED_CHECKSUM,  /* a checksum that is left to the device, at a place that the program names */
	REFUSALS = 8,
};

struct lane_counters {
	__u64 in_packets;
	__u64 in_bytes;
	__u64 out_packets;
	__u64 out_bytes;
	__u64 refused[REFUSALS];
	__u64 lost_packets; /* for the lane, but its ring was full */
};

/* What became of packets that arrived on the NICs. */
enum host_counter {
	HOST_PASSED,            /* to the kernel: no lane took them */
	HOST_DIVERTED,          /* to a lane */
	HOST_GROUP_COPIES,      /* copies of multicast datagrams to lanes */
	HOST_VLAN,              /* those of the passed ones that had the tag of a VLAN */
	HOST_STRAY_FRAGMENT,    /* later fragment of an unknown datagram to an address of ours, to the kernel; or to a group, and not to each of its lanes */
	HOST_CAPTURE_LOST,      /* not captured: the ring buffer was full */
	HOST_COUNTERS = 8,
};

/* Bits of the only entry of `settings`. */
#define SETTING_CAPTURE 1
#define SETTING_WAKE_FRAMES 2 /* see wake.h */

/* The progress of a connection that a peer opens, between the ends of a lane's flow, to the port's
 * listener. */
enum handshake {
	HANDSHAKE_NONE,
	HANDSHAKE_ASKED,    /* the kernel was given a SYN, after which the peer continues at `next` */
	HANDSHAKE_FOLLOWED, /* and it did, acknowledging the answer: the kernel knows whether that is right */
	HANDSHAKE_ANSWERED, /* a lane has sent a SYN and an ACK of `next`: a peer that received these acknowledges the answer */
};

/* The owner of a flow. A lane's entry is removed when a handshake between the same ends completes
 * that is not its own. To complete it a peer must have seen the answer to its SYN, so that forged
 * segments take no connection from its lane (as RFC 9293 section 3.5, RFC 5961).
 * Several processors may concurrently write what they see of several handshakes. The answer and its
 * sender are one word for that: the proof is never a mixture. `next` may be another handshake's,
 * but proves nothing. */
struct flow_value {
	__u32 lane; /* 0: the kernel's, for good */
	__u32 next;
	__u64 progress; /* enum handshake, and the answer in the upper half */
};

static __always_inline __u64 progress_of(const struct flow_value *value)
{
	return *(const volatile __u64 *)&value->progress;
}

static __always_inline void set_progress(struct flow_value *value, enum handshake handshake, __u32 answer)
{
	*(volatile __u64 *)&value->progress = (__u64)answer << 32 | handshake;
}

/* The kernel does not wait for readers: a removed entry may be another flow's by the time that
 * another processor, which has just found it, reads or writes it (with BPF_F_NO_PREALLOC, too).
 * That is harmless. A reader sends one packet, which arrived as its claim ended, where the new
 * entry says; no program can cause that for a claim that is not its own. A writer notes an answer
 * with a flow to which it does not belong: that flow's own segments do not acknowledge it, and an
 * attacker that might forge one that does cannot know that it happened. Removing by key an entry
 * that has been made anew since it was read is harmless, too: between these ends there is another
 * connection. The service learns of it as of any flow that is given away. */
struct {
	__uint(type, BPF_MAP_TYPE_HASH);
	__uint(max_entries, 65536);
	__type(key, struct flow_key);
	__type(value, struct flow_value);
} flows SEC(".maps");

/* Handshakes that began while a lane was joining a shared port, and the lanes that received them.
 * As many as flows. */
struct {
	__uint(type, BPF_MAP_TYPE_LRU_HASH);
	__uint(max_entries, 65536);
	__type(key, struct flow_key);
	__type(value, __u32);
} handshakes SEC(".maps");

struct {
	__uint(type, BPF_MAP_TYPE_HASH);
	__uint(max_entries, 16384);
	__type(key, struct port_key);
	__type(value, struct port_value);
} ports SEC(".maps");

/* The kinds of entries that a local port has in the maps: eight bits for each, eight ports in a
 * word, those of TCP in the first 8192 words, those of UDP in the others. Saves the hash lookups
 * for the kernel's traffic, and for ours those that find nothing. */
enum port_kind {
	PORT_FLOWS = 1,
	PORT_BOUND = 2,
	PORT_ANY = 4,
	PORT_OWNED = 8,
	PORT_OWNED_ANY = 16,
};

struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(max_entries, 16384);
	__uint(map_flags, BPF_F_MMAPABLE);
	__type(key, __u32);
	__type(value, __u64);
} port_kinds SEC(".maps");

static __always_inline __u32 kinds_of(__u8 protocol, __be16 port)
{
	__u32 host_port = bpf_ntohs(port);
	__u32 word = (protocol == 17 ? 8192 : 0) + (host_port >> 3);
	__u64 *kinds = bpf_map_lookup_elem(&port_kinds, &word);
	return kinds ? *kinds >> (host_port & 7) * 8 & 0xff : 0;
}

struct {
	__uint(type, BPF_MAP_TYPE_HASH);
	__uint(max_entries, 4096);
	__type(key, struct group_key);
	__type(value, struct group_value);
} groups SEC(".maps");

/* Twice what the configuration allows at most: lanes that are being removed count, too. The loader
 * sets this number and the mask to what its configuration needs. */
#define MAX_LANES 8192
volatile const __u32 lane_mask = MAX_LANES - 1;

/* The slot of a lane in an array: no two lanes that exist at the same time have the same slot. */
static __always_inline __u32 place_of(__u32 lane)
{
	return lane & lane_mask;
}

/* The receive ring of each lane, by its slot (see ring.h). The lane's program maps it. */
struct ring {
	__uint(type, BPF_MAP_TYPE_RINGBUF);
	__uint(max_entries, 4096);
};

struct {
	__uint(type, BPF_MAP_TYPE_ARRAY_OF_MAPS);
	__uint(max_entries, MAX_LANES);
	__type(key, __u32);
	__array(values, struct ring);
} rings SEC(".maps");

/* By the same slots: a small ring of each lane, which wakes the standby thread (wake.h). */
struct {
	__uint(type, BPF_MAP_TYPE_ARRAY_OF_MAPS);
	__uint(max_entries, MAX_LANES);
	__type(key, __u32);
	__array(values, struct ring);
} standby_rings SEC(".maps");

struct {
	__uint(type, BPF_MAP_TYPE_DEVMAP_HASH);
	__uint(max_entries, 256);
	__type(key, __u32);
	__type(value, __u32);
} nics SEC(".maps");

/* Fragments on their way in, and on their way out. */
struct {
	__uint(type, BPF_MAP_TYPE_LRU_HASH);
	__uint(max_entries, 8192);
	__type(key, struct fragment_key);
	__type(value, struct fragment_value);
} fragments SEC(".maps");

struct {
	__uint(type, BPF_MAP_TYPE_LRU_HASH);
	__uint(max_entries, 8192);
	__type(key, struct fragment_key);
	__type(value, struct fragment_value);
} fragments_out SEC(".maps");

struct {
	__uint(type, BPF_MAP_TYPE_HASH);
	__uint(max_entries, 65536);
	__uint(map_flags, BPF_F_NO_PREALLOC);
	__type(key, struct address_key);
	__type(value, struct address_value);
} addresses SEC(".maps");

struct {
	__uint(type, BPF_MAP_TYPE_HASH);
	__uint(max_entries, 65536);
	__uint(map_flags, BPF_F_NO_PREALLOC);
	__type(key, struct source_key);
	__type(value, __u32);
} sources SEC(".maps");

/* How the host reaches the peers of lanes' connections. */
struct {
	__uint(type, BPF_MAP_TYPE_LRU_HASH);
	__uint(max_entries, 16384);
	__type(key, struct hop_key);
	__type(value, struct hop_value);
} hops SEC(".maps");

struct {
	__uint(type, BPF_MAP_TYPE_HASH);
	__uint(max_entries, 65536);
	__type(key, struct owned_key);
	__type(value, struct owned_value);
} owned SEC(".maps");

struct {
	__uint(type, BPF_MAP_TYPE_PERCPU_ARRAY);
	__uint(max_entries, MAX_LANES);
	__type(key, __u32);
	__type(value, struct lane_counters);
} lane_counters SEC(".maps");

struct {
	__uint(type, BPF_MAP_TYPE_PERCPU_ARRAY);
	__uint(max_entries, HOST_COUNTERS);
	__type(key, __u32);
	__type(value, __u64);
} host_counters SEC(".maps");

struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(max_entries, 1);
	__type(key, __u32);
	__type(value, __u32);
} settings SEC(".maps");

/* Whether a setting is on. */
static __always_inline int setting(__u32 bit)
{
	__u32 zero = 0;
	__u32 *bits = bpf_map_lookup_elem(&settings, &zero);
	return bits && *bits & bit;
}

/* Captured packets on their way to `tickwire capture`. */
struct {
	__uint(type, BPF_MAP_TYPE_RINGBUF);
	__uint(max_entries, 1 << 22);
} capture SEC(".maps");

static __always_inline void count_more(enum host_counter which, __u64 packets)
{
	__u32 key = which;
	__u64 *n = bpf_map_lookup_elem(&host_counters, &key);
	if (n)
		*n += packets;
}

static __always_inline void count(enum host_counter which)
{
	count_more(which, 1);
}
