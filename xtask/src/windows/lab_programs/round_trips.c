/*
 * Round trips of 64 bytes, as a plain measurement program makes them:
 *
 *     round_trips udp|tcp block|poll ADDRESS PORT COUNT WARMUP
 *
 * With `block` it waits in the receiving call. With `poll` its socket does not block, and it calls
 * until there is an answer. It prints one line of JSON, times in nanoseconds. It knows nothing of
 * Tickwire.
 */
#include "common.h"

#define MESSAGE 64
#define TIMEOUT_MS 1000

static SOCKET connected(int kind, struct sockaddr_in *there, int polls)
{
	SOCKET s = socket(AF_INET, kind, 0);
	DWORD timeout_ms = TIMEOUT_MS;
	u_long yes = 1;
	int one = 1;

	if (connect(s, (void *)there, sizeof(*there)))
		fail("connect");
	if (kind == SOCK_STREAM)
		setsockopt(s, IPPROTO_TCP, TCP_NODELAY, (void *)&one, sizeof(one));
	if (polls ? ioctlsocket(s, FIONBIO, &yes)
		  : setsockopt(s, SOL_SOCKET, SO_RCVTIMEO, (void *)&timeout_ms, sizeof(timeout_ms)))
		fail("the way of waiting");
	return s;
}

/* Returns how many bytes, or 0 after the time. */
static int receive(SOCKET s, char *bytes, int room, double until_us)
{
	for (unsigned tries = 1;; tries++) {
		int count = recv(s, bytes, room, 0);

		if (count > 0)
			return count;
		if (count == 0)
			fail("the peer has closed the connection");
		if (WSAGetLastError() == WSAETIMEDOUT)
			return 0;
		if (WSAGetLastError() != WSAEWOULDBLOCK)
			fail("recv");
		if (tries % 256 == 0 && now_us() > until_us)
			return 0;
	}
}

/* Returns whether there was an answer. */
static int round_trip(SOCKET s, int kind, unsigned number)
{
	char sent[MESSAGE], answer[MESSAGE];
	double until_us = now_us() + TIMEOUT_MS * 1e3;
	int received = 0;

	memset(sent, 'a' + number % 26, sizeof(sent));
	memcpy(sent, &number, sizeof(number));
	if (send(s, sent, sizeof(sent), 0) != sizeof(sent))
		fail("send");
	while (received < MESSAGE) {
		int count = receive(s, answer + received, MESSAGE - received, until_us);

		if (!count && kind == SOCK_DGRAM)
			return 0;
		if (!count)
			fail("no answer");
		received += count;
		/* An answer that came too late is another message's. */
		if (kind == SOCK_DGRAM && memcmp(sent, answer, sizeof(sent)))
			received = 0;
	}
	if (memcmp(sent, answer, sizeof(sent)))
		fail("another answer");
	return 1;
}

int main(int count, char **arguments)
{
	struct sockaddr_in there = { .sin_family = AF_INET };
	int kind, polls, trips, warmup, answered = 0;
	unsigned long long *times;
	WSADATA data;
	SOCKET s;

	if (count != 7)
		return 2;
	if (WSAStartup(0x202, &data))
		fail("WSAStartup");
	kind = strcmp(arguments[1], "tcp") ? SOCK_DGRAM : SOCK_STREAM;
	polls = !strcmp(arguments[2], "poll");
	there.sin_addr.s_addr = inet_addr(arguments[3]);
	there.sin_port = htons(atoi(arguments[4]));
	trips = atoi(arguments[5]);
	warmup = atoi(arguments[6]);
	times = malloc(trips * sizeof(*times));
	if (trips < 1 || !times)
		return 2;
	s = connected(kind, &there, polls);
	for (int i = 0; i < warmup; i++)
		round_trip(s, kind, i);
	for (int i = 0; i < trips; i++) {
		double begin = now_us();

		if (round_trip(s, kind, warmup + i))
			times[answered++] = (unsigned long long)((now_us() - begin) * 1e3);
	}
	closesocket(s);
	if (!answered)
		fail("no answer at all");
	qsort(times, answered, sizeof(*times), compare_counts);
#define AT(share) times[(int)((answered - 1) * (share))]
	printf("{\"count\":%d,\"min_ns\":%llu,\"p50_ns\":%llu,\"p99_ns\":%llu,\"p999_ns\":%llu,\"max_ns\":%llu,\"lost\":%d}\n",
	       answered, times[0], AT(0.5), AT(0.99), AT(0.999), times[answered - 1], trips - answered);
	return 0;
}
