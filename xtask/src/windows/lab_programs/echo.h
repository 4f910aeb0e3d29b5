/* A server of echo. */
#ifndef LAB_PROGRAMS_ECHO_H
#define LAB_PROGRAMS_ECHO_H

#include "common.h"

#define CHUNK 65536

static inline DWORD WINAPI echo_stream(void *argument)
{
	static __thread char bytes[CHUNK];
	SOCKET s = (SOCKET)argument;
	int one = 1, count;

	setsockopt(s, IPPROTO_TCP, TCP_NODELAY, (void *)&one, sizeof(one));
	while ((count = recv(s, bytes, sizeof(bytes), 0)) > 0)
		for (int sent = 0; sent < count;) {
			int more = send(s, bytes + sent, count - sent, 0);

			if (more <= 0)
				goto over;
			sent += more;
		}
over:
	closesocket(s);
	return 0;
}

static inline DWORD WINAPI echo_datagrams(void *argument)
{
	static char bytes[CHUNK];
	SOCKET s = (SOCKET)argument;

	for (;;) {
		struct sockaddr_in from;
		int size = sizeof(from), count = recvfrom(s, bytes, sizeof(bytes), 0, (void *)&from, &size);

		if (count < 0 && WSAGetLastError() != WSAECONNRESET)
			fail("recvfrom");
		if (count == 3 && !memcmp(bytes, "end", 3))
			exit(0);
		if (count >= 0)
			sendto(s, bytes, count, 0, (void *)&from, size);
	}
	return 0;
}

/* Echoes at an address and port, UDP datagrams and TCP streams, until a datagram says `end`. */
static inline void serve(const struct sockaddr_in *here)
{
	SOCKET udp = socket(AF_INET, SOCK_DGRAM, 0), tcp = socket(AF_INET, SOCK_STREAM, 0);

	if (bind(udp, (void *)here, sizeof(*here)) || bind(tcp, (void *)here, sizeof(*here)) || listen(tcp, 200))
		fail("bind or listen");
	CreateThread(NULL, 0, echo_datagrams, (void *)udp, 0, NULL);
	printf("ready\n");
	fflush(stdout);
	for (;;) {
		struct sockaddr_in from;
		int size = sizeof(from);
		SOCKET s = accept(tcp, (void *)&from, &size);

		if (s == INVALID_SOCKET)
			fail("accept");
		if (from.sin_family != AF_INET || !from.sin_port)
			fail("the name of a peer");
		size = sizeof(from);
		if (getsockname(s, (void *)&from, &size) || from.sin_port != here->sin_port)
			fail("the name of an accepted socket");
		CreateThread(NULL, 0, echo_stream, (void *)s, 0, NULL);
	}
}

#endif
