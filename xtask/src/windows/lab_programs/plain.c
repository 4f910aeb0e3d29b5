/*
 * A plain program of Winsock, with blocking calls, as measurement programs have them:
 *
 *     plain server ADDRESS PORT           echoes UDP datagrams, and TCP streams with a thread each,
 *                                         until a datagram says `end`
 *     plain client ADDRESS PORT COUNT     COUNT messages of 64 bytes by UDP, as many by TCP, a
 *                                         stream of 16 MiB, a refused connection, and the loopback
 *     plain connects ADDRESS PORT COUNT   COUNT connections in a row, with a message each
 *     plain reset ADDRESS PORT            a connection that the peer resets when it is told to
 *     plain select ADDRESS PORT           connections without blocking, by select and WSAPoll
 *
 * It says `ready`, or what it has measured, or what is wrong. It knows nothing of Tickwire.
 */
#include "echo.h"

#define MESSAGE 64
#define STREAM (16 << 20)

static struct sockaddr_in there;

static SOCKET connected(int kind)
{
	SOCKET s = socket(AF_INET, kind, 0);
	struct sockaddr_in name;
	DWORD timeout_ms = 5000;
	int one = 1, size = sizeof(name);

	if (connect(s, (void *)&there, sizeof(there)))
		fail("connect");
	if (getpeername(s, (void *)&name, &size) || name.sin_port != there.sin_port)
		fail("getpeername");
	setsockopt(s, SOL_SOCKET, SO_RCVTIMEO, (void *)&timeout_ms, sizeof(timeout_ms));
	if (kind == SOCK_STREAM)
		setsockopt(s, IPPROTO_TCP, TCP_NODELAY, (void *)&one, sizeof(one));
	return s;
}

static void receive_all(SOCKET s, char *bytes, int wanted)
{
	for (int count = 0; count < wanted;) {
		int more = recv(s, bytes + count, wanted - count, 0);

		if (more <= 0)
			fail("recv");
		count += more;
	}
}

/* Each is closed before the next. */
static void connections(int count)
{
	char answer[MESSAGE], sent[MESSAGE] = { 1 };

	for (int i = 0; i < count; i++) {
		SOCKET s = connected(SOCK_STREAM);

		if (send(s, sent, sizeof(sent), 0) != sizeof(sent))
			fail("send");
		receive_all(s, answer, sizeof(answer));
		closesocket(s);
	}
}

static void measure(const char *name, int kind, int count)
{
	double *times = malloc(count * sizeof(*times));
	SOCKET s = connected(kind);

	for (int i = 0; i < count; i++) {
		char sent[MESSAGE], answer[MESSAGE];
		double begin = now_us();

		memset(sent, i, sizeof(sent));
		if (send(s, sent, sizeof(sent), 0) != sizeof(sent))
			fail("send");
		receive_all(s, answer, sizeof(answer));
		if (memcmp(sent, answer, sizeof(sent)))
			fail("another answer");
		times[i] = now_us() - begin;
	}
	print_times(name, times, count);
	closesocket(s);
	free(times);
}

static DWORD WINAPI send_stream(void *argument)
{
	static char bytes[CHUNK];
	SOCKET s = (SOCKET)argument;

	for (int sent = 0; sent < STREAM; sent += CHUNK) {
		for (int i = 0; i < CHUNK; i++)
			bytes[i] = (char)((sent + i) * 7 / 5);
		for (int count = 0; count < CHUNK;) {
			int more = send(s, bytes + count, CHUNK - count, 0);

			if (more <= 0)
				fail("send of a stream");
			count += more;
		}
	}
	if (shutdown(s, SD_SEND))
		fail("shutdown");
	return 0;
}

static void stream(void)
{
	static char bytes[CHUNK];
	SOCKET s = connected(SOCK_STREAM);
	HANDLE sender = CreateThread(NULL, 0, send_stream, (void *)s, 0, NULL);
	int received = 0, count;

	while ((count = recv(s, bytes, sizeof(bytes), 0)) > 0)
		for (int i = 0; i < count; i++, received++)
			if (bytes[i] != (char)(received * 7 / 5))
				fail("another byte");
	if (count < 0 || received != STREAM)
		fail("the end of a stream");
	WaitForSingleObject(sender, INFINITE);
	printf("stream bytes=%d\n", received);
	closesocket(s);
}

static void refused(void)
{
	SOCKET s = socket(AF_INET, SOCK_STREAM, 0);
	struct sockaddr_in other = there;

	other.sin_port = htons(ntohs(there.sin_port) + 1);
	if (!connect(s, (void *)&other, sizeof(other)) || WSAGetLastError() != WSAECONNREFUSED)
		fail("a connection that is to be refused");
	/* Wine's own sockets are used up then; Windows' are not. */
	if (!connect(s, (void *)&there, sizeof(there))) {
		if (!connect(s, (void *)&there, sizeof(there)) || WSAGetLastError() != WSAEISCONN)
			fail("a connection that is there");
		printf("again\n");
	} else if (WSAGetLastError() != WSAECONNABORTED) {
		fail("a second attempt");
	}
	closesocket(s);
	printf("refused\n");
}

/* The peer resets the connection. Windows says so at each call; Wine's own sockets may not. */
static void reset(void)
{
	SOCKET s = connected(SOCK_STREAM);
	int is_repeated = 1;
	char byte;

	if (send(s, "reset", 5, 0) != 5)
		fail("send to a peer that resets");
	for (int i = 0; i < 2; i++) {
		int count = recv(s, &byte, 1, 0);

		if (count > 0)
			fail("recv of a connection that was reset");
		is_repeated &= count < 0 && WSAGetLastError() == WSAECONNRESET;
	}
	if (is_repeated)
		printf("a reset is repeated\n");
	closesocket(s);
}

/* What comes by the loopback is the kernel's, also for sockets that a lane has. */
static void both_halves(void)
{
	SOCKET listener = socket(AF_INET, SOCK_STREAM, 0), udp = socket(AF_INET, SOCK_DGRAM, 0), client, accepted;
	struct sockaddr_in any = { .sin_family = AF_INET }, name, from;
	int size = sizeof(name);
	char bytes[8];

	if (bind(listener, (void *)&any, sizeof(any)) || listen(listener, 5) || bind(udp, (void *)&any, sizeof(any)))
		fail("bind to any address");
	if (getsockname(listener, (void *)&name, &size))
		fail("getsockname of a listener");
	name.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
	client = socket(AF_INET, SOCK_STREAM, 0);
	if (connect(client, (void *)&name, sizeof(name)))
		fail("connect by the loopback");
	accepted = accept(listener, NULL, NULL);
	if (accepted == INVALID_SOCKET || send(accepted, "tick", 4, 0) != 4 || recv(client, bytes, 4, 0) != 4)
		fail("a connection by the loopback");
	size = sizeof(name);
	if (getsockname(udp, (void *)&name, &size))
		fail("getsockname of UDP");
	name.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
	if (sendto(udp, "tock", 4, 0, (void *)&name, sizeof(name)) != 4)
		fail("sendto by the loopback");
	size = sizeof(from);
	if (recvfrom(udp, bytes, sizeof(bytes), 0, (void *)&from, &size) != 4 || from.sin_port != name.sin_port)
		fail("a datagram by the loopback");
	closesocket(client);
	closesocket(accepted);
	closesocket(listener);
	closesocket(udp);
	printf("both halves\n");
}

/* An attempt to connect that fails is an exception, and nothing else. */
static void refused_without_blocking(void)
{
	SOCKET s = socket(AF_INET, SOCK_STREAM, 0);
	struct sockaddr_in other = there, name;
	struct timeval time = { 5, 0 };
	WSAPOLLFD poll = { s, POLLRDNORM | POLLWRNORM, 0 };
	fd_set read, write, except;
	int size = sizeof(name);
	u_long yes = 1;
	double begin;

	other.sin_port = htons(ntohs(there.sin_port) + 1);
	ioctlsocket(s, FIONBIO, &yes);
	if (!connect(s, (void *)&other, sizeof(other)) || WSAGetLastError() != WSAEWOULDBLOCK)
		fail("connect without blocking");
	FD_ZERO(&read);
	FD_ZERO(&write);
	FD_ZERO(&except);
	FD_SET(s, &read);
	FD_SET(s, &write);
	FD_SET(s, &except);
	/* Wine's own sockets can be read and written, too. */
	if (select(0, &read, &write, &except, &time) < 1 || !FD_ISSET(s, &except))
		fail("select for a failure");
	if (!FD_ISSET(s, &read) && !FD_ISSET(s, &write))
		printf("an exception alone\n");
	if (!getpeername(s, (void *)&name, &size) || WSAGetLastError() != WSAENOTCONN)
		fail("the name of a peer that has refused");
	/* It is not ready to be read, and a program that waits for that waits. */
	FD_ZERO(&read);
	FD_SET(s, &read);
	time = (struct timeval) { 0, 300000 };
	begin = now_us();
	if (!select(0, &read, NULL, NULL, &time) && now_us() - begin >= 290000)
		printf("waits\n");
	if (WSAPoll(&poll, 1, 5000) != 1)
		fail("WSAPoll for a failure");
	if (poll.revents == (POLLHUP | POLLERR | POLLWRNORM))
		printf("hung up, failed, writable\n");
	closesocket(s);
}

/* The peer's end, with data before it and without. */
static void ended_without_blocking(void)
{
	SOCKET s = connected(SOCK_STREAM);
	WSAPOLLFD poll[2] = { { INVALID_SOCKET, POLLRDNORM, 7 }, { s, POLLRDNORM, 0 } };
	struct timeval wrong = { -1, 0 };
	fd_set set;
	char bytes[2];

	FD_ZERO(&set);
	FD_SET(s, &set);
	if (select(0, &set, NULL, NULL, &wrong) == SOCKET_ERROR && WSAGetLastError() == WSAEINVAL)
		printf("no time below zero\n");
	if (send(s, "ab", 2, 0) != 2 || shutdown(s, SD_SEND))
		fail("send and shutdown");
	do {
		if (WSAPoll(poll, 2, 5000) < 1)
			fail("WSAPoll for the end");
	} while (!(poll[1].revents & POLLHUP));
	if (poll[0].revents == 0 && poll[1].revents == (POLLRDNORM | POLLHUP))
		printf("data and the end\n");
	receive_all(s, bytes, 2);
	if (WSAPoll(poll + 1, 1, 5000) == 1 && poll[1].revents == POLLHUP)
		printf("the end\n");
	FD_ZERO(&set);
	FD_SET(s, &set);
	if (select(0, &set, NULL, NULL, NULL) != 1 || recv(s, bytes, 1, 0))
		fail("select for the end");
	closesocket(s);
}

static void without_blocking(void)
{
	SOCKET s = socket(AF_INET, SOCK_STREAM, 0);
	struct timeval time = { 5, 0 };
	u_long yes = 1, waiting = 0;
	char bytes[MESSAGE] = { 1 };
	WSAPOLLFD poll = { s, POLLRDNORM, 0 };
	int error = 1, size = sizeof(error);
	fd_set set;

	ioctlsocket(s, FIONBIO, &yes);
	if (!connect(s, (void *)&there, sizeof(there)) || WSAGetLastError() != WSAEWOULDBLOCK)
		fail("connect without blocking");
	FD_ZERO(&set);
	FD_SET(s, &set);
	if (select(0, NULL, &set, NULL, &time) != 1 || !FD_ISSET(s, &set))
		fail("select for a connection");
	if (getsockopt(s, SOL_SOCKET, SO_ERROR, (void *)&error, &size) || error)
		fail("SO_ERROR");
	if (recv(s, bytes, sizeof(bytes), 0) != SOCKET_ERROR || WSAGetLastError() != WSAEWOULDBLOCK)
		fail("recv without data");
	if (WSAPoll(&poll, 1, 0) != 0)
		fail("WSAPoll without data");
	if (send(s, bytes, sizeof(bytes), 0) != sizeof(bytes))
		fail("send without blocking");
	if (WSAPoll(&poll, 1, 5000) != 1 || !(poll.revents & POLLRDNORM))
		fail("WSAPoll for data");
	if (ioctlsocket(s, FIONREAD, &waiting) || waiting != sizeof(bytes))
		fail("FIONREAD");
	if (recv(s, bytes, sizeof(bytes), 0) != sizeof(bytes))
		fail("recv without blocking");
	closesocket(s);
	printf("without blocking\n");
}

int main(int count, char **arguments)
{
	WSADATA data;

	if (count < 4)
		return 2;
	if (WSAStartup(0x202, &data))
		fail("WSAStartup");
	there.sin_family = AF_INET;
	there.sin_addr.s_addr = inet_addr(arguments[2]);
	there.sin_port = htons(atoi(arguments[3]));
	if (!strcmp(arguments[1], "server"))
		serve(&there);
	if (!strcmp(arguments[1], "client") && count > 4) {
		measure("udp", SOCK_DGRAM, atoi(arguments[4]));
		measure("tcp", SOCK_STREAM, atoi(arguments[4]));
		stream();
		refused();
		both_halves();
	}
	if (!strcmp(arguments[1], "connects") && count > 4)
		connections(atoi(arguments[4]));
	if (!strcmp(arguments[1], "reset"))
		reset();
	if (!strcmp(arguments[1], "select")) {
		without_blocking();
		refused_without_blocking();
		ended_without_blocking();
	}
	printf("done\n");
	return 0;
}
