/*
 * A program that waits for its sockets by polls of the driver, past Winsock:
 *
 *     afd ADDRESS PORT COUNT    what polls say in each state of a socket; COUNT round trips with a
 *                               server of echo there
 *
 * It prints what it has found, one line for each poll, so that two runs can be compared. What is
 * measured comes on lines that begin with `measured`. It knows nothing of Tickwire.
 */
#include "afd.h"

#define CHUNK 65536
#define TIMEOUT_MS 10000
/* So long nothing happens. */
#define SHORT_MS 150

static struct sockaddr_in there;
static HANDLE device;
/* A connection for several of the checks: each one takes a service its time. */
static SOCKET shared;
static char bytes[CHUNK];

static void prepare(struct poll *poll, LONGLONG timeout)
{
	HANDLE event = poll->overlapped.hEvent;

	memset(poll, 0, sizeof(*poll));
	poll->overlapped.hEvent = event ? event : CreateEventA(NULL, TRUE, FALSE, NULL);
	poll->input.timeout = timeout;
}

static void add(struct poll *poll, SOCKET s, ULONG bits)
{
	poll->input.sockets[poll->input.count++] = (struct polled){ s, bits, 0 };
}

static void begin(struct poll *poll)
{
	call(poll, device, NULL, SIZE(poll->input.count));
}

/* A poll of one socket. */
static void begin_one(struct poll *poll, SOCKET s, ULONG bits, LONGLONG timeout)
{
	prepare(poll, timeout);
	add(poll, s, bits);
	begin(poll);
}

/* Prints how a poll has ended. Sockets are shown by their places in the input. */
static void show(const char *name, const struct poll *poll, DWORD wait_ms)
{
	if (poll->called < 0) {
		printf("%s: refused with %#lx\n", name, (unsigned long)poll->called);
		return;
	}
	if (WaitForSingleObject(poll->overlapped.hEvent, wait_ms) != WAIT_OBJECT_0) {
		printf("%s: waits\n", name);
		return;
	}
	printf("%s: status %#lx, %u bytes", name, (unsigned long)status_of(poll),
	       (unsigned)poll->overlapped.InternalHigh);
	if (poll->overlapped.InternalHigh >= SIZE(0)) {
		if (poll->output.timeout != poll->input.timeout)
			printf(", another timeout");
		for (ULONG i = 0; i < poll->output.count; i++) {
			const struct polled *found = &poll->output.sockets[i];
			ULONG place = 0;

			while (place < poll->input.count && poll->input.sockets[place].s != found->s)
				place++;
			printf(", socket %lu: %#lx", place, found->bits);
			if (found->status)
				printf(" with %#lx", (unsigned long)found->status);
		}
	}
	printf("\n");
}

/* As `show`, and whether the call has returned it. */
static void show_when(const char *name, const struct poll *poll)
{
	printf(poll->called == STATUS_PENDING ? "later, " : "at once, ");
	show(name, poll, TIMEOUT_MS);
}

static void show_now(const char *name, SOCKET s, ULONG bits)
{
	static struct poll poll;

	begin_one(&poll, s, bits, 0);
	show_when(name, &poll);
}

static void expect(SOCKET s, ULONG bits, const char *what)
{
	static struct poll poll;

	begin_one(&poll, s, bits, MILLISECONDS(TIMEOUT_MS));
	if (poll.called < 0 || WaitForSingleObject(poll.overlapped.hEvent, 2 * TIMEOUT_MS) != WAIT_OBJECT_0 ||
	    poll.output.count != 1)
		fail(what);
}

static void cancel(struct poll *poll)
{
	CancelIoEx(device, &poll->overlapped);
	WaitForSingleObject(poll->overlapped.hEvent, TIMEOUT_MS);
}

static void begin_connecting(SOCKET s, struct sockaddr_in *to)
{
	if (!connect(s, (void *)to, sizeof(*to)) || WSAGetLastError() != WSAEWOULDBLOCK)
		fail("connect");
}

static SOCKET connected(void)
{
	SOCKET s = made(SOCK_STREAM);

	begin_connecting(s, &there);
	expect(s, SEND, "a connection");
	return s;
}

static void sent(SOCKET s, const char *what)
{
	if (send(s, what, strlen(what), 0) != (int)strlen(what))
		fail("send");
}

static void received(SOCKET s, const char *what)
{
	if (recv(s, bytes, sizeof(bytes), 0) != (int)strlen(what) || memcmp(bytes, what, strlen(what)))
		fail("recv");
}

/* The handle that is polled is the program's own. */
static void base_handles(void)
{
	static const DWORD codes[] = { 0x48000022 /* SIO_BASE_HANDLE */, 0x4800001d /* SIO_BSP_HANDLE_POLL */ };
	SOCKET s = shared, base;
	DWORD size;

	for (int i = 0; i < 2; i++)
		if (!WSAIoctl(s, codes[i], NULL, 0, &base, sizeof(base), &size, NULL, NULL) && base != s)
			fail("another base handle");
	if (WSAIoctl(s, codes[0], NULL, 0, &base, sizeof(base), &size, NULL, NULL))
		fail("no base handle");
}

static void bad_input(void)
{
	static struct poll poll;
	SOCKET s = shared;

	begin_one(&poll, 0xabacab, EVERY, 0);
	show("an unknown handle", &poll, 0);
	prepare(&poll, 0);
	add(&poll, s, EVERY);
	add(&poll, 0xabacab, EVERY);
	begin(&poll);
	show("an unknown handle beside a socket", &poll, 0);
	for (int count = 0; count < 3; count += 2) {
		prepare(&poll, 0);
		add(&poll, s, EVERY);
		poll.input.count = count;
		call(&poll, device, NULL, SIZE(1));
		show(count ? "more sockets than there are" : "no sockets", &poll, 0);
	}
	prepare(&poll, 0);
	add(&poll, s, EVERY);
	call(&poll, device, NULL, SIZE(1) - 1);
	show("a short input", &poll, 0);
}

static void connections(void)
{
	static struct poll poll, other;
	SOCKET s = made(SOCK_STREAM);

	show_now("a new socket", s, EVERY);
	begin_one(&poll, s, EVERY, NEVER);
	show("a new socket without end", &poll, SHORT_MS);
	begin_connecting(s, &there);
	show_when("it connects", &poll);
	show_now("a connection", s, EVERY);
	show_now("a connection, of something else", s, EVERY & ~(SEND | CONNECT));
	begin_one(&poll, s, RECEIVE | DISCONNECT, NEVER);
	show("a connection without data", &poll, SHORT_MS);
	begin_one(&other, s, RECEIVE, NEVER);
	sent(s, "data");
	show_when("data", &poll);
	show_when("data, by a second poll", &other);
	begin_one(&poll, s, RECEIVE | SEND, NEVER);
	show_when("data that is there", &poll);
	show_now("all of it", s, EVERY);
	received(s, "data");
	show_now("it is read", s, EVERY);
	begin_one(&poll, s, RECEIVE, MILLISECONDS(50));
	show_when("a time from now", &poll);
	begin_one(&poll, s, RECEIVE, 130000000000000000);
	show_when("a time in the past", &poll);
	/* The same socket twice. */
	for (int now = 0; now < 2; now++) {
		prepare(&poll, NEVER);
		add(&poll, s, now ? RECEIVE : RECEIVE | SEND);
		add(&poll, s, now ? RECEIVE : SEND);
		begin(&poll);
		if (now)
			sent(s, "twice");
		show_when(now ? "a socket twice, with data" : "a socket twice", &poll);
	}
	received(s, "twice");
	closesocket(s);
}

static void ends(void)
{
	static struct poll poll;
	SOCKET s = connected();
	struct sockaddr_in nowhere = there;

	sent(s, "the last data");
	if (shutdown(s, SD_SEND))
		fail("shutdown");
	expect(s, RECEIVE, "the last data");
	/* Wine's own sockets tell of it when the data has been read. */
	begin_one(&poll, s, DISCONNECT, MILLISECONDS(2000));
	show("the end with data", &poll, TIMEOUT_MS);
	show_now("all of the end with data", s, EVERY);
	received(s, "the last data");
	begin_one(&poll, s, RECEIVE | DISCONNECT, NEVER);
	show("the end", &poll, TIMEOUT_MS);
	show_now("all of the end", s, EVERY);
	closesocket(s);

	s = connected();
	begin_one(&poll, s, EVERY & ~(SEND | CONNECT), NEVER);
	sent(s, "reset");
	show("a reset", &poll, TIMEOUT_MS);
	show_now("all of a reset", s, EVERY);
	closesocket(s);

	s = made(SOCK_STREAM);
	nowhere.sin_port = htons(ntohs(there.sin_port) + 1);
	begin_connecting(s, &nowhere);
	begin_one(&poll, s, EVERY, NEVER);
	show("a refusal", &poll, TIMEOUT_MS);
	show_now("a refusal again", s, EVERY);
	show_now("a refusal, of something else", s, EVERY & ~CONNECT_FAIL);
	closesocket(s);

	s = connected();
	begin_one(&poll, s, 0, NEVER);
	show("nothing that is asked for", &poll, SHORT_MS);
	closesocket(s);
	show_when("it is closed", &poll);
}

static void cancellation(void)
{
	static struct poll poll, second;
	HANDLE own = device;
	SOCKET s = shared;

	begin_one(&poll, s, RECEIVE, NEVER);
	begin_one(&second, s, RECEIVE, NEVER);
	if (!CancelIoEx(device, &poll.overlapped))
		fail("CancelIoEx");
	show("it is cancelled", &poll, TIMEOUT_MS);
	show("the other one", &second, SHORT_MS);
	if (!CancelIo(device))
		fail("CancelIo");
	show("the other one is cancelled", &second, TIMEOUT_MS);
	device = open_device();
	begin_one(&poll, s, RECEIVE, NEVER);
	begin_one(&second, s, RECEIVE, NEVER);
	if (!CancelIoEx(device, NULL))
		fail("CancelIoEx of all");
	show("all are cancelled", &poll, TIMEOUT_MS);
	show("all are cancelled, the second", &second, TIMEOUT_MS);
	begin_one(&poll, s, RECEIVE, NEVER);
	CloseHandle(device);
	/* (With which status is Windows' own business.) */
	if (WaitForSingleObject(poll.overlapped.hEvent, TIMEOUT_MS) != WAIT_OBJECT_0 || status_of(&poll) >= 0)
		fail("the handle of the driver is closed");
	device = own;
	/* Polls that end others. */
	for (int exclusive = 0; exclusive < 2; exclusive++) {
		prepare(&poll, NEVER);
		add(&poll, s, RECEIVE);
		poll.input.exclusive = exclusive;
		begin(&poll);
		prepare(&second, NEVER);
		add(&second, s, RECEIVE);
		second.input.exclusive = 1;
		begin(&second);
		show(exclusive ? "an exclusive poll" : "another poll", &poll, SHORT_MS);
		show("an exclusive poll that follows", &second, SHORT_MS);
		cancel(&poll);
		cancel(&second);
	}
}

static void ports(void)
{
	static struct poll poll;
	HANDLE port = CreateIoCompletionPort(device, NULL, 77, 0);
	OVERLAPPED_ENTRY entry;
	ULONG count;
	SOCKET s = shared;

	for (int with_context = 0; with_context < 2; with_context++) {
		void *context = with_context ? &poll : NULL;

		for (int is_later = 0; is_later < 2; is_later++) {
			prepare(&poll, NEVER);
			add(&poll, s, is_later ? RECEIVE : SEND);
			call(&poll, device, context, SIZE(1));
			if (is_later) {
				sent(s, "posted");
				show_when("by a port, data", &poll);
				received(s, "posted");
			} else {
				show_when("by a port", &poll);
			}
			if (!GetQueuedCompletionStatusEx(port, &entry, 1, &count, SHORT_MS, FALSE))
				printf("nothing is posted\n");
			else
				printf("posted: key %lu, %s, status %#lx, %lu bytes\n", (unsigned long)entry.lpCompletionKey,
				       (void *)entry.lpOverlapped == context ? "the context" : "another context",
				       (unsigned long)poll.overlapped.Internal, entry.dwNumberOfBytesTransferred);
		}
	}
	prepare(&poll, NEVER);
	add(&poll, s, RECEIVE);
	call(&poll, device, &poll, SIZE(1));
	CancelIoEx(device, &poll.overlapped);
	if (!GetQueuedCompletionStatusEx(port, &entry, 1, &count, TIMEOUT_MS, FALSE))
		fail("a cancelled poll is not posted");
	printf("a cancelled poll is posted: status %#lx\n", (unsigned long)(ULONG)entry.lpOverlapped->Internal);
}

static void datagrams(void)
{
	static struct poll poll;
	SOCKET s = made(SOCK_DGRAM);

	show_now("a new socket of UDP", s, EVERY);
	if (connect(s, (void *)&there, sizeof(there)))
		fail("connect of UDP");
	show_now("a socket of UDP, to be received by", s, RECEIVE);
	begin_one(&poll, s, RECEIVE, NEVER);
	sent(s, "a datagram");
	show_when("a datagram", &poll);
	received(s, "a datagram");
	show_now("it is received", s, RECEIVE | SEND);
	closesocket(s);
}

/* What comes by the loopback is the kernel's. */
static void by_loopback(void)
{
	static struct poll poll;
	struct sockaddr_in any = { .sin_family = AF_INET }, name;
	SOCKET listener = made(SOCK_STREAM), client = made(SOCK_STREAM), udp = made(SOCK_DGRAM), ours = shared;
	SOCKET accepted;
	int size = sizeof(name);

	if (bind(listener, (void *)&any, sizeof(any)) || listen(listener, 5) ||
	    getsockname(listener, (void *)&name, &size))
		fail("a listener");
	name.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
	show_now("a listener", listener, EVERY);
	begin_one(&poll, listener, EVERY, NEVER);
	/* It is the kernel's only from the moment on at which it connects. */
	static struct poll connecting;
	begin_one(&connecting, client, EVERY, NEVER);
	begin_connecting(client, &name);
	show_when("a connection by the loopback", &connecting);
	show("a listener, by the loopback", &poll, TIMEOUT_MS);
	show_now("a listener with a connection", listener, EVERY);
	accepted = accept(listener, NULL, NULL);
	if (accepted == INVALID_SOCKET)
		fail("accept");
	show_now("it is accepted", listener, EVERY);

	/* Some sockets are the kernel's, others are not. */
	for (int i = 0; i < 4; i++) {
		prepare(&poll, NEVER);
		add(&poll, ours, RECEIVE);
		add(&poll, accepted, RECEIVE);
		begin(&poll);
		show("both kinds of sockets", &poll, i ? 0 : SHORT_MS);
		sent(i & 1 ? ours : client, "mixed");
		show_when("data for one of both kinds", &poll);
		begin(&poll);
		show_when("data that is there for one of both kinds", &poll);
		received(i & 1 ? ours : accepted, "mixed");
	}
	prepare(&poll, MILLISECONDS(50));
	add(&poll, accepted, RECEIVE);
	add(&poll, ours, RECEIVE);
	begin(&poll);
	show("both kinds, for a time", &poll, TIMEOUT_MS);
	prepare(&poll, NEVER);
	add(&poll, accepted, SEND);
	add(&poll, ours, SEND);
	begin(&poll);
	show_when("both kinds at once", &poll);
	prepare(&poll, NEVER);
	add(&poll, accepted, RECEIVE);
	add(&poll, ours, RECEIVE);
	begin(&poll);
	cancel(&poll);
	show("both kinds, cancelled", &poll, TIMEOUT_MS);
	begin(&poll);
	closesocket(accepted);
	show("the kernel's is closed", &poll, TIMEOUT_MS);

	size = sizeof(name);
	if (bind(udp, (void *)&any, sizeof(any)) || getsockname(udp, (void *)&name, &size))
		fail("bind of UDP");
	name.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
	for (int i = 0; i < 3; i++) {
		begin_one(&poll, udp, RECEIVE, NEVER);
		if (sendto(udp, "tock", 4, 0, (void *)&name, sizeof(name)) != 4)
			fail("sendto by the loopback");
		show_when("a datagram by the loopback", &poll);
		received(udp, "tock");
	}
	closesocket(listener);
	closesocket(client);
	closesocket(udp);
}

static DWORD WINAPI send_later(void *s)
{
	Sleep(50);
	sent((SOCKET)s, "another thread");
	return 0;
}

static void threads(void)
{
	static struct poll poll;
	SOCKET s = shared;
	HANDLE thread;

	begin_one(&poll, s, RECEIVE, NEVER);
	thread = CreateThread(NULL, 0, send_later, (void *)s, 0, NULL);
	show_when("another thread sends", &poll);
	WaitForSingleObject(thread, INFINITE);
	received(s, "another thread");
}

/* Round trips as an event loop makes them. */
static void measure(int count)
{
	static struct poll poll;
	HANDLE own = device, port;
	double *times = calloc(count, sizeof(*times));
	SOCKET s = shared;
	int one = 1;

	device = open_device();
	port = CreateIoCompletionPort(device, NULL, 0, 0);
	setsockopt(s, IPPROTO_TCP, TCP_NODELAY, (void *)&one, sizeof(one));
	for (int i = 0; i < count; i++) {
		OVERLAPPED_ENTRY entry;
		ULONG removed;
		double begun = now_us();

		sent(s, "ping");
		prepare(&poll, NEVER);
		add(&poll, s, RECEIVE | DISCONNECT | ABORT);
		if (call(&poll, device, &poll, SIZE(1)) < 0 ||
		    !GetQueuedCompletionStatusEx(port, &entry, 1, &removed, TIMEOUT_MS, FALSE))
			fail("a round trip");
		received(s, "ping");
		times[i] = now_us() - begun;
	}
	printf("measured ");
	print_times("poll", times, count);
	CloseHandle(device);
	CloseHandle(port);
	device = own;
	free(times);
}

int main(int count, char **arguments)
{
	WSADATA data;

	if (count != 4)
		return 2;
	setvbuf(stdout, NULL, _IONBF, 0);
	if (WSAStartup(0x202, &data))
		fail("WSAStartup");
	there = address_of(arguments);
	device = open_device();
	shared = connected();
	base_handles();
	bad_input();
	connections();
	ends();
	cancellation();
	datagrams();
	by_loopback();
	threads();
	ports();
	measure(atoi(arguments[3]));
	printf("done\n");
	return 0;
}
