/* Threads that wait at one socket. Each gets something or waits on: none is told that there is
 * nothing because another one was faster. */
#include "suite.h"

#define SUBJECT "threads"
#define THREADS 4

/* A socket, and what its threads have seen. */
struct shared {
	SOCKET s;
	HANDLE threads[THREADS];
	volatile LONG good, failed;
};

static struct shared *begun(SOCKET s, LPTHREAD_START_ROUTINE work)
{
	/* It stays: a thread that hangs uses it. */
	struct shared *shared = calloc(1, sizeof(*shared));

	shared->s = s;
	for (int i = 0; i < THREADS; i++)
		shared->threads[i] = CreateThread(NULL, 0, work, shared, 0, NULL);
	return shared;
}

static void ended(struct shared *shared)
{
	int have = WaitForMultipleObjects(THREADS, shared->threads, TRUE, PATIENCE_MS) == WAIT_OBJECT_0;

	say("good=%ld failed=%ld ended=%d", shared->good, shared->failed, have);
}

/* What a thread has received: one byte ends it. */
static int is_last(struct shared *shared, int count)
{
	if (count != 1)
		InterlockedIncrement(count == 3 ? &shared->good : &shared->failed);
	return count == 1 || count < 0;
}

static DWORD CALLBACK receive(void *argument)
{
	struct shared *shared = argument;
	char bytes[8];

	while (!is_last(shared, recv(shared->s, bytes, sizeof(bytes), 0)))
		;
	return 0;
}

static DWORD CALLBACK receive_by_wsarecvfrom(void *argument)
{
	struct shared *shared = argument;
	char bytes[8];
	DWORD count, flags;
	int result;

	do {
		WSABUF part = { sizeof(bytes), bytes };

		flags = 0;
		result = WSARecvFrom(shared->s, &part, 1, &count, &flags, NULL, NULL, NULL, NULL);
	} while (!is_last(shared, result ? -1 : (int)count));
	return 0;
}

/* Datagrams by the loopback, and by the card. */
static void send_to_threads(LPTHREAD_START_ROUTINE work)
{
	struct sockaddr_in name;
	SOCKET s = bound_datagram(&name), sender = datagram();
	struct shared *shared = begun(s, work);

	for (int i = 0; i < 60; i++) {
		if (i % 3)
			sendto(sender, "abc", 3, 0, NAME(name), sizeof(name));
		else
			ask(s, "size:3");
		Sleep(2);
	}
	for (int i = 0; i < THREADS; i++)
		sendto(sender, "e", 1, 0, NAME(name), sizeof(name));
	ended(shared);
	closesocket(sender);
	closesocket(s);
}

CASE(receive_at_one_socket) { send_to_threads(receive); }
CASE(receive_at_one_socket_by_wsarecvfrom) { send_to_threads(receive_by_wsarecvfrom); }

static DWORD CALLBACK take(void *argument)
{
	struct shared *shared = argument;
	SOCKET one;
	char bytes[8];
	int count;

	do {
		one = accept(shared->s, NULL, NULL);
		count = one == INVALID_SOCKET ? -1 : recv(one, bytes, sizeof(bytes), 0);
		closesocket(one);
	} while (!is_last(shared, count));
	return 0;
}

static void dial_here(const struct sockaddr_in *name, const char *text)
{
	SOCKET s = stream();

	if (connect(s, (const struct sockaddr *)name, sizeof(*name)) || send(s, text, strlen(text), 0) < 0)
		say_error("connect", WSAGetLastError());
	closesocket(s);
}

/* Connections by the loopback, and by the card. */
CASE(accept_at_one_listener)
{
	struct sockaddr_in name;
	SOCKET s = listening(&name);
	struct shared *shared = begun(s, take);

	for (int i = 0; i < 30; i++) {
		if (i % 5)
			dial_here(&name, "abc");
		else
			closesocket(dialled(&name, "send:3 drain"));
		Sleep(2);
	}
	for (int i = 0; i < THREADS; i++)
		dial_here(&name, "e");
	ended(shared);
	closesocket(s);
}
