/*
 * A program that waits for network events, by event objects or by messages to a window:
 *
 *     events objects|window server ADDRESS PORT    echoes UDP datagrams and TCP streams with one
 *                                                  thread, until a datagram says `end`
 *     events objects|window client ADDRESS PORT    what a client is told: connections, data, room,
 *                                                  ends, failures
 *
 * It says `ready`, or what it has found, or what is wrong. It knows nothing of Tickwire.
 */
#include "common.h"

#define MOST 256
#define CHUNK 65536
#define AMOUNT (16 << 20)
#define TIMEOUT_MS 10000
#define MESSAGE (WM_USER + 7)
#define EVERY (FD_READ | FD_WRITE | FD_OOB | FD_ACCEPT | FD_CONNECT | FD_CLOSE)

/* A socket, and what has been told of it. */
struct known {
	SOCKET s;
	long told;
	int errors[FD_MAX_EVENTS];
	/* What is to be echoed. */
	char *data;
	int from, to;
	/* The peer's end has been told. */
	int is_at_end;
};

static struct known all[MOST];
static struct sockaddr_in there;
static HWND window;
static WSAEVENT event;
static char bytes[CHUNK];

static struct known *find(SOCKET s)
{
	for (int i = 0; i < MOST; i++)
		if (all[i].s == s)
			return &all[i];
	return NULL;
}

static struct known *add(SOCKET s)
{
	struct known *known = find(0);

	if (s == INVALID_SOCKET || !known)
		fail("a socket");
	known->s = s;
	known->told = 0;
	known->from = known->to = known->is_at_end = 0;
	return known;
}

static void ask(struct known *known, long events)
{
	int result = window ? WSAAsyncSelect(known->s, window, events ? MESSAGE : 0, events)
			    : WSAEventSelect(known->s, events ? event : NULL, events);

	if (result)
		fail("asking for events");
}

/* Waits until something is told, and notes it. Returns how many events: an event object may be set
 * for something that is known already. */
static int pump(DWORD time_ms)
{
	int count = 0;

	if (window) {
		MSG message;

		if (MsgWaitForMultipleObjects(0, NULL, FALSE, time_ms, QS_ALLINPUT) == WAIT_TIMEOUT)
			return 0;
		while (PeekMessage(&message, NULL, 0, 0, PM_REMOVE)) {
			struct known *known = message.message == MESSAGE ? find(message.wParam) : NULL;
			int which = WSAGETSELECTEVENT(message.lParam), place = 0;

			if (!known)
				continue;
			while (!(which >> place & 1))
				place++;
			known->told |= which;
			known->errors[place] = WSAGETSELECTERROR(message.lParam);
			count++;
		}
		return count;
	}
	if (WSAWaitForMultipleEvents(1, &event, FALSE, time_ms, FALSE) == WSA_WAIT_TIMEOUT)
		return 0;
	if (!WSAResetEvent(event))
		fail("WSAResetEvent");
	for (int i = 0; i < MOST; i++) {
		WSANETWORKEVENTS found;

		if (!all[i].s)
			continue;
		if (WSAEnumNetworkEvents(all[i].s, NULL, &found))
			fail("WSAEnumNetworkEvents");
		for (int place = 0; place < FD_MAX_EVENTS; place++)
			if (found.lNetworkEvents >> place & 1) {
				all[i].told |= 1 << place;
				all[i].errors[place] = found.iErrorCode[place];
				count++;
			}
	}
	return count;
}

static void over(struct known *known)
{
	closesocket(known->s);
	/* Messages that are in the queue are none of the next socket with this handle. */
	while (window && pump(0))
		;
	known->s = 0;
}

/* Waits for an event. Returns its error. */
static int expect(struct known *known, int place, const char *what)
{
	ULONGLONG until = GetTickCount64() + TIMEOUT_MS;

	while (!(known->told >> place & 1))
		if (!pump(1000) && GetTickCount64() > until)
			fail(what);
	known->told &= ~(1 << place);
	return known->errors[place];
}

/* Whether an event is told within a short time. */
static int is_told(struct known *known, int place)
{
	ULONGLONG until = GetTickCount64() + 200;

	while (!(known->told >> place & 1) && GetTickCount64() < until)
		pump(50);
	if (!(known->told >> place & 1))
		return 0;
	known->told &= ~(1 << place);
	return 1;
}

static void expect_nothing(struct known *known, const char *what)
{
	ULONGLONG until = GetTickCount64() + 100;

	while (GetTickCount64() < until)
		pump(50);
	if (known->told) {
		printf("%s: events %#lx\n", what, known->told);
		exit(1);
	}
}

static void would_block(int result, const char *what)
{
	if (result != SOCKET_ERROR || WSAGetLastError() != WSAEWOULDBLOCK)
		fail(what);
}

static void receive(struct known *known, int wanted, const char *what)
{
	if (recv(known->s, bytes, wanted, 0) != wanted)
		fail(what);
}

static struct known *connected(void)
{
	struct known *known = add(socket(AF_INET, SOCK_STREAM, 0));

	ask(known, EVERY);
	expect_nothing(known, "a socket that does nothing");
	would_block(connect(known->s, (void *)&there, sizeof(there)), "connect");
	if (expect(known, FD_CONNECT_BIT, "a connection"))
		fail("a connection fails");
	expect(known, FD_WRITE_BIT, "room for the first time");
	return known;
}

/* Reading: told once, and again for what is left. */
static void reading(void)
{
	struct known *known = connected();
	char sent[64] = { 'e' };
	u_long no = 0;

	expect_nothing(known, "a connection without data");
	if (send(known->s, sent, sizeof(sent), 0) != sizeof(sent))
		fail("send");
	expect(known, FD_READ_BIT, "data");
	expect_nothing(known, "data that is not received");
	receive(known, 10, "a part");
	expect(known, FD_READ_BIT, "the rest of the data");
	receive(known, 54, "the rest");
	expect_nothing(known, "a connection without data left");
	would_block(recv(known->s, bytes, 1, 0), "recv without data");
	expect_nothing(known, "an attempt to receive");
	if (!ioctlsocket(known->s, FIONBIO, &no) || WSAGetLastError() != WSAEINVAL)
		fail("blocking while events are asked for");
	ask(known, FD_READ | FD_WRITE);
	if (is_told(known, FD_WRITE_BIT))
		printf("told anew\n");
	ask(known, 0);
	if (send(known->s, sent, sizeof(sent), 0) != sizeof(sent))
		fail("send without events");
	expect_nothing(known, "no events are asked for");
	if (ioctlsocket(known->s, FIONBIO, &no))
		fail("blocking again");
	for (int count = 0; count < 64;) {
		int more = recv(known->s, bytes, 64, 0);

		if (more <= 0)
			fail("recv without events");
		count += more;
	}
	over(known);
	printf("reading\n");
}

/* Writing until there is no room, because nothing is read; and when there is room again. */
static void writing(void)
{
	struct known *known = connected();
	ULONGLONG until = GetTickCount64() + TIMEOUT_MS;
	int sent = 0, received = 0, rooms = 0, has_room = 1;

	while (received < AMOUNT) {
		while (has_room && sent < AMOUNT) {
			int wanted = AMOUNT - sent < CHUNK ? AMOUNT - sent : CHUNK, count;

			for (int i = 0; i < wanted; i++)
				bytes[i] = (char)((sent + i) * 7 / 5);
			count = send(known->s, bytes, wanted, 0);
			if (count < 0) {
				would_block(count, "send");
				has_room = 0;
			} else {
				sent += count;
			}
		}
		while (!known->told)
			if (!pump(1000) && GetTickCount64() > until)
				fail("neither data nor room");
		until = GetTickCount64() + TIMEOUT_MS;
		if (known->told & FD_WRITE) {
			known->told &= ~FD_WRITE;
			if (!has_room)
				rooms++;
			has_room = 1;
		}
		if (known->told & FD_READ) {
			int count;

			known->told &= ~FD_READ;
			while ((count = recv(known->s, bytes, sizeof(bytes), 0)) > 0)
				for (int i = 0; i < count; i++, received++)
					if (bytes[i] != (char)(received * 7 / 5))
						fail("another byte");
			would_block(count, "recv");
		}
		if (known->told)
			fail("another event");
	}
	over(known);
	printf(rooms ? "room again\n" : "always room\n");
}

/* The peer's end comes after its data, and once. */
static void ending(void)
{
	struct known *known = connected();
	int is_early = 0;

	if (send(known->s, bytes, 1000, 0) != 1000 || shutdown(known->s, SD_SEND))
		fail("send and shutdown");
	for (int count = 0; count < 1000; count += 100) {
		/* Wine's own sockets tell of the end at once, and of nothing afterwards. */
		if (!is_early)
			expect(known, FD_READ_BIT, "the last data");
		for (int i = 0; i < 3; i++)
			pump(20);
		is_early |= known->told & FD_CLOSE;
		receive(known, 100, "the last data");
	}
	if (expect(known, FD_CLOSE_BIT, "the end"))
		fail("the end is an error");
	if (!is_early)
		printf("the end after the data\n");
	if (recv(known->s, bytes, 1, 0))
		fail("recv at the end");
	expect_nothing(known, "the end is told twice");
	over(known);

	/* `R`: the peer resets. */
	known = connected();
	if (send(known->s, "R", 1, 0) != 1)
		fail("send");
	/* Wine's own sockets tell of an end. */
	if (expect(known, FD_CLOSE_BIT, "a reset") == WSAECONNRESET)
		printf("reset\n");
	over(known);
	printf("ending\n");
}

/* Urgent data, which the peer answers by urgent data. */
static void urgent(void)
{
	struct known *known = connected();

	if (send(known->s, "U", 1, MSG_OOB) != 1)
		fail("send of urgent data");
	expect(known, FD_OOB_BIT, "urgent data");
	if (recv(known->s, bytes, 1, MSG_OOB) != 1 || bytes[0] != 'u')
		fail("recv of urgent data");
	if (send(known->s, "U", 1, 0) != 1)
		fail("send");
	expect(known, FD_OOB_BIT, "urgent data for the second time");
	over(known);
	printf("urgent\n");
}

static void refused(void)
{
	struct known *known = add(socket(AF_INET, SOCK_STREAM, 0));
	struct sockaddr_in other = there;

	other.sin_port = htons(ntohs(there.sin_port) + 1);
	ask(known, EVERY);
	would_block(connect(known->s, (void *)&other, sizeof(other)), "connect");
	if (expect(known, FD_CONNECT_BIT, "a failure") != WSAECONNREFUSED)
		fail("the error of a failure");
	if (window || !known->told)
		printf("a failure alone\n");
	known->told = 0;
	/* Wine's own sockets are used up then; Windows' are not. */
	if (connect(known->s, (void *)&there, sizeof(there)) && WSAGetLastError() == WSAEWOULDBLOCK) {
		if (expect(known, FD_CONNECT_BIT, "another attempt"))
			fail("another attempt fails");
		expect(known, FD_WRITE_BIT, "room");
		printf("again\n");
	}
	over(known);
	printf("refused\n");
}

/* Asked for when the connection is there already. */
static void late(void)
{
	struct known *known = add(socket(AF_INET, SOCK_STREAM, 0));

	if (connect(known->s, (void *)&there, sizeof(there)))
		fail("connect with blocking");
	ask(known, EVERY);
	expect(known, FD_WRITE_BIT, "room");
	known->told = 0;
	if (send(known->s, "late", 4, 0) != 4)
		fail("send");
	expect(known, FD_READ_BIT, "data");
	receive(known, 4, "data");
	if (send(known->s, "late", 4, 0) != 4)
		fail("send");
	expect(known, FD_READ_BIT, "data for the second time");
	receive(known, 4, "data");
	over(known);
	printf("late\n");
}

static void datagrams(void)
{
	struct known *known = add(socket(AF_INET, SOCK_DGRAM, 0));

	ask(known, FD_READ | FD_WRITE);
	if (connect(known->s, (void *)&there, sizeof(there)))
		fail("connect of UDP");
	expect(known, FD_WRITE_BIT, "room for datagrams");
	for (int i = 0; i < 100; i++) {
		if (send(known->s, bytes, i + 1, 0) != i + 1)
			fail("send of UDP");
		expect(known, FD_READ_BIT, "a datagram");
		if (recv(known->s, bytes, sizeof(bytes), 0) != i + 1)
			fail("recv of UDP");
	}
	would_block(recv(known->s, bytes, 1, 0), "recv of UDP without a datagram");
	known->told = 0;
	expect_nothing(known, "no datagram");
	over(known);
	printf("datagrams\n");
}

/* What comes by the loopback is the kernel's, also for sockets that a lane has. */
static void both_halves(void)
{
	struct known *listener = add(socket(AF_INET, SOCK_STREAM, 0)), *udp = add(socket(AF_INET, SOCK_DGRAM, 0));
	struct sockaddr_in any = { .sin_family = AF_INET }, name;
	struct known *accepted, *client = add(socket(AF_INET, SOCK_STREAM, 0));
	int size = sizeof(name);

	if (bind(listener->s, (void *)&any, sizeof(any)) || listen(listener->s, 5))
		fail("bind or listen");
	ask(listener, FD_ACCEPT | FD_READ | FD_CLOSE);
	if (getsockname(listener->s, (void *)&name, &size))
		fail("getsockname");
	name.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
	ask(client, FD_CONNECT);
	would_block(connect(client->s, (void *)&name, sizeof(name)), "connect by the loopback");
	if (expect(client, FD_CONNECT_BIT, "a connection by the loopback"))
		fail("a connection by the loopback");
	expect(listener, FD_ACCEPT_BIT, "a connection by the loopback");
	accepted = add(accept(listener->s, NULL, NULL));
	if (send(client->s, "tick", 4, 0) != 4)
		fail("send by the loopback");
	expect(accepted, FD_READ_BIT, "data by the loopback");
	receive(accepted, 4, "data by the loopback");
	over(client);
	expect(accepted, FD_CLOSE_BIT, "the end by the loopback");
	over(accepted);
	expect_nothing(listener, "no more connections");
	over(listener);

	ask(udp, FD_READ);
	if (bind(udp->s, (void *)&any, sizeof(any)))
		fail("bind of UDP");
	size = sizeof(name);
	if (getsockname(udp->s, (void *)&name, &size))
		fail("getsockname of UDP");
	name.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
	for (int i = 0; i < 3; i++) {
		if (sendto(udp->s, "tock", 4, 0, (void *)&name, sizeof(name)) != 4)
			fail("sendto by the loopback");
		expect(udp, FD_READ_BIT, "a datagram by the loopback");
		receive(udp, 4, "a datagram by the loopback");
	}
	over(udp);
	printf("both halves\n");
}

/* Sends what is left of what has been received, and receives more. */
static void echo(struct known *known)
{
	for (;;) {
		int count;

		while (known->from < known->to) {
			count = send(known->s, known->data + known->from, known->to - known->from, 0);
			if (count < 0) {
				would_block(count, "send");
				return;
			}
			known->from += count;
		}
		count = recv(known->s, known->data, CHUNK, 0);
		if (count < 0) {
			would_block(count, "recv");
			return;
		}
		/* The stream's end: an event says so, too. */
		if (!count)
			return;
		known->from = 0;
		known->to = count;
	}
}

static void serve(void)
{
	struct known *udp = add(socket(AF_INET, SOCK_DGRAM, 0)), *tcp = add(socket(AF_INET, SOCK_STREAM, 0));

	ask(tcp, EVERY);
	if (bind(udp->s, (void *)&there, sizeof(there)) || bind(tcp->s, (void *)&there, sizeof(there))
	    || listen(tcp->s, 200))
		fail("bind or listen");
	ask(udp, FD_READ);
	printf("ready\n");
	fflush(stdout);
	for (;;) {
		int is_idle = 1;

		for (int i = 0; i < MOST; i++) {
			struct known *known = &all[i];
			long told = known->told;

			if (!known->s || !told)
				continue;
			is_idle = 0;
			known->told = 0;
			if (known == udp) {
				struct sockaddr_in from;
				int size = sizeof(from);
				int count = recvfrom(udp->s, bytes, sizeof(bytes), 0, (void *)&from, &size);

				if (count == 3 && !memcmp(bytes, "end", 3))
					exit(0);
				if (count >= 0)
					sendto(udp->s, bytes, count, 0, (void *)&from, size);
			} else if (known == tcp) {
				SOCKET s = accept(tcp->s, NULL, NULL);

				/* It is told of as its listener is. */
				if (s != INVALID_SOCKET) {
					struct known *made = add(s);
					int one = 1;

					if (!made->data)
						made->data = malloc(CHUNK);
					setsockopt(s, IPPROTO_TCP, TCP_NODELAY, (void *)&one, sizeof(one));
				} else if (WSAGetLastError() != WSAEWOULDBLOCK) {
					fail("accept");
				}
			} else {
				known->is_at_end |= told & FD_CLOSE;
				echo(known);
				if (known->is_at_end && known->from == known->to)
					over(known);
			}
		}
		/* (What a socket's end brings is noted, too.) */
		if (is_idle)
			pump(INFINITE);
	}
}

int main(int count, char **arguments)
{
	WSADATA data;

	if (count < 5)
		return 2;
	if (WSAStartup(0x202, &data))
		fail("WSAStartup");
	there.sin_family = AF_INET;
	there.sin_addr.s_addr = inet_addr(arguments[3]);
	there.sin_port = htons(atoi(arguments[4]));
	if (!strcmp(arguments[1], "window")) {
		window = CreateWindowA("STATIC", "", 0, 0, 0, 0, 0, HWND_MESSAGE, NULL, NULL, NULL);
		if (!window)
			fail("CreateWindow");
	} else {
		event = WSACreateEvent();
	}
	if (!strcmp(arguments[2], "server"))
		serve();
	reading();
	writing();
	ending();
	urgent();
	refused();
	late();
	datagrams();
	both_halves();
	printf("done\n");
	return 0;
}
