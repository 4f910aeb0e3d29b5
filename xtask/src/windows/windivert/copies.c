/* See copies.h. */
#define _GNU_SOURCE
#include "copies.h"
#include <arpa/inet.h>
#include <errno.h>
#include <linux/filter.h>
#include <linux/if_arp.h>
#include <linux/if_ether.h>
#include <linux/if_packet.h>
#include <pthread.h>
#include <string.h>
#include <sys/socket.h>
#include <time.h>
#include <unistd.h>
#include <windef.h>
#include <winbase.h>

#define SECOND 1000000000LL

static struct {
	int is_open;
	int socket;
	void (*take)(const struct copy *);
} copies;

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;

/* What is UDP, of both versions of IP. */
static struct sock_filter is_udp[] = {
	BPF_STMT(BPF_LD | BPF_B | BPF_ABS, 0),
	BPF_STMT(BPF_ALU | BPF_RSH | BPF_K, 4),
	BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, 4, 0, 2),
	BPF_STMT(BPF_LD | BPF_B | BPF_ABS, 9),
	BPF_STMT(BPF_JMP | BPF_JA, 1),
	BPF_STMT(BPF_LD | BPF_B | BPF_ABS, 6),
	BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, IPPROTO_UDP, 0, 1),
	BPF_STMT(BPF_RET | BPF_K, 0xffff),
	BPF_STMT(BPF_RET | BPF_K, 0),
};

static int64_t nanoseconds(const struct timespec *time)
{
	return time->tv_sec * SECOND + time->tv_nsec;
}

static int64_t wall_clock(void)
{
	struct timespec now;

	clock_gettime(CLOCK_REALTIME, &now);
	return nanoseconds(&now);
}

/* The count of the performance counter at a time of the wall clock that has just been. */
static int64_t count_at(int64_t time)
{
	LARGE_INTEGER count, frequency;
	int64_t before, now;

	QueryPerformanceFrequency(&frequency);
	before = wall_clock();
	QueryPerformanceCounter(&count);
	now = before + (wall_clock() - before) / 2;
	/* (A count is that of its beginning.) */
	return count.QuadPart - ((now - time) * frequency.QuadPart + SECOND / 2) / SECOND;
}

static int64_t timestamp(struct msghdr *message)
{
	struct timespec time;

	for (struct cmsghdr *one = CMSG_FIRSTHDR(message); one; one = CMSG_NXTHDR(message, one)) {
		if (one->cmsg_level == SOL_SOCKET && one->cmsg_type == SCM_TIMESTAMPNS) {
			memcpy(&time, CMSG_DATA(one), sizeof(time));
			return nanoseconds(&time);
		}
	}
	return wall_clock();
}

static DWORD WINAPI read_packets(void *unused)
{
	static uint8_t bytes[1 << 16];
	struct sockaddr_ll from;
	union {
		struct cmsghdr header;
		uint8_t room[128];
	} control;

	(void)unused;
	for (;;) {
		struct iovec part = { bytes, sizeof(bytes) };
		struct msghdr message = {
			.msg_name = &from,
			.msg_namelen = sizeof(from),
			.msg_iov = &part,
			.msg_iovlen = 1,
			.msg_control = &control,
			.msg_controllen = sizeof(control),
		};
		ssize_t length = recvmsg(copies.socket, &message, 0);
		int is_outbound = from.sll_pkttype == PACKET_OUTGOING;

		if (length < 0 && errno != EINTR && errno != ENETDOWN)
			return 1;
		if (length <= 0 || from.sll_hatype == ARPHRD_LOOPBACK || (!is_outbound && from.sll_pkttype != PACKET_HOST))
			continue;
		copies.take(&(struct copy){
			.bytes = bytes,
			.length = length,
			.interface = from.sll_ifindex,
			.is_outbound = is_outbound,
			.timestamp = count_at(timestamp(&message)),
		});
	}
}

static int begin(void)
{
	struct sock_fprog filter = { sizeof(is_udp) / sizeof(*is_udp), is_udp };
	int on = 1, result = 0;
	HANDLE thread;

	copies.socket = socket(AF_PACKET, SOCK_DGRAM | SOCK_CLOEXEC, 0);
	if (copies.socket < 0)
		return -errno;
	if (setsockopt(copies.socket, SOL_SOCKET, SO_ATTACH_FILTER, &filter, sizeof(filter)) ||
	    setsockopt(copies.socket, SOL_SOCKET, SO_TIMESTAMPNS, &on, sizeof(on)) ||
	    bind(copies.socket, (struct sockaddr *)&(struct sockaddr_ll){ .sll_family = AF_PACKET, .sll_protocol = htons(ETH_P_ALL) },
		 sizeof(struct sockaddr_ll)))
		result = -errno;
	thread = result ? NULL : CreateThread(NULL, 0, read_packets, NULL, 0, NULL);
	if (!result && !thread)
		result = -EAGAIN;
	if (result)
		close(copies.socket);
	else
		CloseHandle(thread);
	return result;
}

int copies_begin(void (*take)(const struct copy *))
{
	int result = 0;

	pthread_mutex_lock(&lock);
	if (!copies.is_open) {
		copies.take = take;
		result = begin();
		copies.is_open = !result;
	}
	pthread_mutex_unlock(&lock);
	return result;
}
