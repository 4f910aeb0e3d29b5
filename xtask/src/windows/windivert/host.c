/* See host.h. */
#define _GNU_SOURCE
#include "host.h"
#include "../lab_card/helper.h"
#include "../lab_card/tun.h"
#include <arpa/inet.h>
#include <errno.h>
#include <linux/netfilter.h>
#include <linux/netfilter/nfnetlink.h>
#include <linux/netfilter/nfnetlink_queue.h>
#include <linux/netlink.h>
#include <net/if.h>
#include <pthread.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>
#include <windef.h>
#include <winbase.h>

/* One program of a host has it. */
#define QUEUE 5353
#define QUEUE_TEXT "5353"

/* Packets that wait for a decision, and bytes that wait for the reader. */
#define QUEUE_LENGTH 8192
#define RECEIVE_BUFFER (16 << 20)

/* The most bytes of a packet that are copied: an attribute of netlink is not longer. */
#define COPY (0xffff - NLA_HDRLEN)

#define DEVICE "tickwire-wd"

/* `$1` is the queue. It says 0 when the packet filter has been changed. */
static char script[] =
	"change() {\n"
	"    iptables --wait $2 INPUT ! --in-interface lo --jump NFQUEUE --queue-num $1 --queue-bypass >&2 &&\n"
	"    ip6tables --wait $2 INPUT ! --in-interface lo --jump NFQUEUE --queue-num $1 --queue-bypass >&2\n"
	"}\n"
	"change $1 --insert\n"
	"echo $?\n"
	"while read -r line; do :; done\n"
	"change $1 --delete\n";

static struct {
	int is_open;
	int netlink;
	int device; /* of TUN */
	uint32_t device_index;
	int raw, raw_v6;
	struct helper helper;
	int (*decide)(const struct arrival *);
} host;

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;

/* A message to the queue. */
struct message {
	struct nlmsghdr header;
	struct nfgenmsg general;
	uint8_t attributes[128];
};

static void begin_message(struct message *message, int type)
{
	memset(message, 0, sizeof(*message));
	message->header.nlmsg_type = NFNL_SUBSYS_QUEUE << 8 | type;
	message->header.nlmsg_flags = NLM_F_REQUEST;
	message->header.nlmsg_len = NLMSG_LENGTH(sizeof(message->general));
	message->general.res_id = htons(QUEUE);
}

static void add(struct message *message, int type, const void *value, size_t size)
{
	struct nlattr *attribute = (struct nlattr *)((uint8_t *)message + NLMSG_ALIGN(message->header.nlmsg_len));

	attribute->nla_type = type;
	attribute->nla_len = NLA_HDRLEN + size;
	memcpy((uint8_t *)attribute + NLA_HDRLEN, value, size);
	message->header.nlmsg_len = NLMSG_ALIGN(message->header.nlmsg_len) + NLA_ALIGN(attribute->nla_len);
}

static int tell(const struct message *message)
{
	struct sockaddr_nl kernel = { .nl_family = AF_NETLINK };

	return TEMP_FAILURE_RETRY(sendto(host.netlink, message, message->header.nlmsg_len, 0, (struct sockaddr *)&kernel,
					 sizeof(kernel))) < 0 ? -errno : 0;
}

/* Sends a message of configuration and returns the kernel's answer. */
static int configure(struct message *message)
{
	union {
		struct nlmsghdr header;
		uint8_t bytes[512];
	} answer;
	struct nlmsgerr error;
	int result;

	message->header.nlmsg_flags |= NLM_F_ACK;
	result = tell(message);
	if (result)
		return result;
	/* No packet comes before the packet filter has been changed. */
	if (TEMP_FAILURE_RETRY(recv(host.netlink, &answer, sizeof(answer), 0)) < (ssize_t)NLMSG_LENGTH(sizeof(error)) ||
	    answer.header.nlmsg_type != NLMSG_ERROR)
		return -EPROTO;
	memcpy(&error, NLMSG_DATA(&answer.header), sizeof(error));
	return error.error;
}

static int open_queue(void)
{
	struct nfqnl_msg_config_cmd bind_to = { .command = NFQNL_CFG_CMD_BIND };
	struct nfqnl_msg_config_params all = { .copy_range = htonl(COPY), .copy_mode = NFQNL_COPY_PACKET };
	uint32_t length = htonl(QUEUE_LENGTH), merged = htonl(NFQA_CFG_F_GSO);
	int buffer = RECEIVE_BUFFER, on = 1, result;
	struct message message;

	host.netlink = socket(AF_NETLINK, SOCK_RAW | SOCK_CLOEXEC, NETLINK_NETFILTER);
	if (host.netlink < 0 ||
	    setsockopt(host.netlink, SOL_SOCKET, SO_RCVBUFFORCE, &buffer, sizeof(buffer)) ||
	    setsockopt(host.netlink, SOL_NETLINK, NETLINK_NO_ENOBUFS, &on, sizeof(on)))
		return -errno;
	begin_message(&message, NFQNL_MSG_CONFIG);
	add(&message, NFQA_CFG_CMD, &bind_to, sizeof(bind_to));
	result = configure(&message);
	if (result)
		return result;
	begin_message(&message, NFQNL_MSG_CONFIG);
	add(&message, NFQA_CFG_PARAMS, &all, sizeof(all));
	add(&message, NFQA_CFG_QUEUE_MAXLEN, &length, sizeof(length));
	add(&message, NFQA_CFG_FLAGS, &merged, sizeof(merged));
	add(&message, NFQA_CFG_MASK, &merged, sizeof(merged));
	return configure(&message);
}

static int open_device(void)
{
	char name[IF_NAMESIZE] = DEVICE;

	host.device = tun_open(name, 0);
	if (host.device < 0)
		return host.device;
	host.device_index = if_nametoindex(name);
	return 0;
}

static int open_raw(void)
{
	int on = 1;

	host.raw = socket(AF_INET, SOCK_RAW | SOCK_CLOEXEC, IPPROTO_RAW);
	if (host.raw < 0)
		return -errno;
	host.raw_v6 = socket(AF_INET6, SOCK_RAW | SOCK_CLOEXEC, IPPROTO_RAW);
	if (host.raw_v6 < 0 || setsockopt(host.raw_v6, IPPROTO_IPV6, IPV6_HDRINCL, &on, sizeof(on)))
		return -errno;
	return 0;
}

static void decide(uint32_t id, int verdict)
{
	struct nfqnl_msg_verdict_hdr decision = { .verdict = htonl(verdict), .id = id };
	struct message message;

	begin_message(&message, NFQNL_MSG_VERDICT);
	add(&message, NFQA_VERDICT_HDR, &decision, sizeof(decision));
	tell(&message);
}

static uint32_t number(const uint8_t *bytes)
{
	uint32_t number;

	memcpy(&number, bytes, sizeof(number));
	return ntohl(number);
}

/* Decides about the packet in a message. */
static void read_message(const struct nlmsghdr *header)
{
	const uint8_t *at = (const uint8_t *)NLMSG_DATA(header) + NLMSG_ALIGN(sizeof(struct nfgenmsg));
	const uint8_t *end = (const uint8_t *)header + header->nlmsg_len;
	struct arrival arrival = { 0 };
	uint32_t id = 0, length = 0, state = 0;
	int has_id = 0, is_taken = 0;

	if (header->nlmsg_type != (NFNL_SUBSYS_QUEUE << 8 | NFQNL_MSG_PACKET))
		return;
	while (at + NLA_HDRLEN <= end) {
		const struct nlattr *attribute = (const struct nlattr *)at;
		const uint8_t *value = at + NLA_HDRLEN;
		uint32_t size = attribute->nla_len - NLA_HDRLEN;

		if (attribute->nla_len < NLA_HDRLEN || value + size > end)
			break;
		switch (attribute->nla_type & NLA_TYPE_MASK) {
		case NFQA_PACKET_HDR:
			memcpy(&id, value, sizeof(id));
			has_id = 1;
			break;
		case NFQA_IFINDEX_INDEV:
			arrival.interface = number(value);
			break;
		case NFQA_SKB_INFO:
			state = number(value);
			break;
		case NFQA_CAP_LEN:
			length = number(value);
			break;
		case NFQA_PAYLOAD:
			arrival.bytes = value;
			arrival.length = size;
			break;
		}
		at += NLA_ALIGN(attribute->nla_len);
	}
	if (!has_id)
		return;
	arrival.is_verified = (state & NFQA_SKB_CSUMNOTREADY) || !(state & NFQA_SKB_CSUM_NOTVERIFIED);
	/* What was given back is not taken again, and what is incomplete is of no use. */
	if (arrival.interface != host.device_index && arrival.bytes && (!length || length == arrival.length))
		is_taken = host.decide(&arrival);
	decide(id, is_taken ? NF_DROP : NF_ACCEPT);
}

static DWORD WINAPI read_packets(void *unused)
{
	static union {
		struct nlmsghdr header;
		uint8_t bytes[1 << 18];
	} buffer;
	ssize_t length;

	(void)unused;
	for (;;) {
		length = recv(host.netlink, &buffer, sizeof(buffer), 0);
		if (length < 0 && errno != EINTR)
			return 1;
		for (struct nlmsghdr *header = &buffer.header; length > 0 && NLMSG_OK(header, (size_t)length);
		     header = NLMSG_NEXT(header, length))
			read_message(header);
	}
}

static int begin(void)
{
	HANDLE thread;
	int result = open_queue();

	if (!result)
		result = open_device();
	if (!result)
		result = open_raw();
	if (!result)
		result = helper_start(&host.helper, script, QUEUE_TEXT);
	if (result)
		return result;
	/* (An exit status.) */
	result = helper_answer(&host.helper);
	if (result)
		return result < 0 ? result : -EPERM;
	thread = CreateThread(NULL, 0, read_packets, NULL, 0, NULL);
	if (!thread)
		return -EAGAIN;
	CloseHandle(thread);
	return 0;
}

static void end(void)
{
	const int files[] = { host.netlink, host.device, host.raw, host.raw_v6 };

	helper_end(&host.helper);
	for (size_t i = 0; i < sizeof(files) / sizeof(*files); i++) {
		if (files[i] >= 0)
			close(files[i]);
	}
}

int host_begin(int (*decide)(const struct arrival *))
{
	int result = 0;

	pthread_mutex_lock(&lock);
	if (!host.is_open) {
		host.netlink = host.device = host.raw = host.raw_v6 = host.helper.socket = -1;
		host.decide = decide;
		result = begin();
		host.is_open = !result;
		if (result)
			end();
	}
	pthread_mutex_unlock(&lock);
	return result;
}

int host_give(const uint8_t *packet, uint32_t length)
{
	return TEMP_FAILURE_RETRY(write(host.device, packet, length)) < 0 ? -errno : 0;
}

int host_send(const uint8_t *packet, uint32_t length, uint32_t interface)
{
	struct sockaddr_in to = { .sin_family = AF_INET };
	struct sockaddr_in6 to_v6 = { .sin6_family = AF_INET6 };
	ssize_t sent;

	if (packet[0] >> 4 == 4) {
		memcpy(&to.sin_addr, packet + 16, sizeof(to.sin_addr));
		sent = TEMP_FAILURE_RETRY(sendto(host.raw, packet, length, 0, (struct sockaddr *)&to, sizeof(to)));
	} else {
		memcpy(&to_v6.sin6_addr, packet + 24, sizeof(to_v6.sin6_addr));
		if (IN6_IS_ADDR_LINKLOCAL(&to_v6.sin6_addr))
			to_v6.sin6_scope_id = interface;
		sent = TEMP_FAILURE_RETRY(
			sendto(host.raw_v6, packet, length, 0, (struct sockaddr *)&to_v6, sizeof(to_v6)));
	}
	return sent < 0 ? -errno : 0;
}
