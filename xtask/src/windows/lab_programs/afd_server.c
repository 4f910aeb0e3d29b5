/*
 * A server that waits for its sockets by polls of the driver, past Winsock, as wepoll does it: a
 * poll for each socket.
 *
 *     afd_server ADDRESS PORT    echoes UDP datagrams and TCP streams with one thread, until a
 *                                datagram says `end`
 *
 * It knows nothing of Tickwire.
 */
#include "afd.h"

#define CHUNK 65536
#define MOST 256

static struct sockaddr_in there;
static HANDLE device;
static char bytes[CHUNK];

/* A socket, and its poll. */
struct known {
	struct poll poll;
	SOCKET s;
	char *data;
	int from, to;
};

static struct known all[MOST];

static void begin_again(struct known *known, ULONG bits)
{
	known->poll.overlapped.hEvent = NULL;
	known->poll.input = (struct poll_info){ NEVER, 1, 0, { { known->s, bits | DISCONNECT | ABORT, 0 } } };
	if (call(&known->poll, device, known, SIZE(1)) < 0)
		fail("a poll");
}

static struct known *know(SOCKET s)
{
	struct known *known = all;
	u_long yes = 1;

	while (known < all + MOST && known->s)
		known++;
	if (s == INVALID_SOCKET || known == all + MOST || ioctlsocket(s, FIONBIO, &yes))
		fail("a socket");
	known->s = s;
	known->from = known->to = 0;
	if (!known->data)
		known->data = malloc(CHUNK);
	begin_again(known, RECEIVE | ACCEPT);
	return known;
}

/* Sends what is left of what has been received, and receives more. Returns what to wait for; 0 at
 * the end. */
static ULONG echo(struct known *known)
{
	for (;;) {
		int count;

		while (known->from < known->to) {
			count = send(known->s, known->data + known->from, known->to - known->from, 0);
			if (count < 0)
				return WSAGetLastError() == WSAEWOULDBLOCK ? SEND : 0;
			known->from += count;
		}
		count = recv(known->s, known->data, CHUNK, 0);
		if (count <= 0)
			return count < 0 && WSAGetLastError() == WSAEWOULDBLOCK ? RECEIVE : 0;
		known->from = 0;
		known->to = count;
	}
}

static void serve(void)
{
	HANDLE port = CreateIoCompletionPort(device, NULL, 0, 0);
	struct known *udp, *tcp;
	SOCKET s = made(SOCK_DGRAM), listener = made(SOCK_STREAM);

	if (bind(s, (void *)&there, sizeof(there)) || bind(listener, (void *)&there, sizeof(there)) ||
	    listen(listener, 200))
		fail("bind or listen");
	udp = know(s);
	tcp = know(listener);
	printf("ready\n");
	for (;;) {
		OVERLAPPED_ENTRY entries[16];
		ULONG count;

		if (!GetQueuedCompletionStatusEx(port, entries, 16, &count, INFINITE, FALSE))
			fail("waiting at the port");
		for (ULONG i = 0; i < count; i++) {
			struct known *known = (void *)entries[i].lpOverlapped;
			ULONG bits = RECEIVE;

			if (status_of(&known->poll) || known->poll.output.count != 1)
				fail("a poll has failed");
			if (known == udp) {
				struct sockaddr_in from;
				int size = sizeof(from), length;

				length = recvfrom(udp->s, bytes, sizeof(bytes), 0, (void *)&from, &size);
				if (length == 3 && !memcmp(bytes, "end", 3))
					exit(0);
				if (length >= 0)
					sendto(udp->s, bytes, length, 0, (void *)&from, size);
			} else if (known == tcp) {
				SOCKET accepted = accept(tcp->s, NULL, NULL);
				int one = 1;

				if (accepted != INVALID_SOCKET) {
					setsockopt(accepted, IPPROTO_TCP, TCP_NODELAY, (void *)&one, sizeof(one));
					know(accepted);
				}
				bits = ACCEPT;
			} else {
				bits = echo(known);
			}
			if (bits) {
				begin_again(known, bits);
			} else {
				closesocket(known->s);
				known->s = 0;
			}
		}
	}
}

int main(int count, char **arguments)
{
	WSADATA data;

	if (count != 3)
		return 2;
	setvbuf(stdout, NULL, _IONBF, 0);
	if (WSAStartup(0x202, &data))
		fail("WSAStartup");
	there = address_of(arguments);
	device = open_device();
	serve();
	return 0;
}
