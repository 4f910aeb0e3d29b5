/* Making sockets, binding, listening, names, closing. */
#include "suite.h"

#define SUBJECT "making"

static SOCKET last;

#define MADE(family, kind, protocol) OKAY("socket", last = socket(family, kind, protocol))

CASE(stream) { MADE(AF_INET, SOCK_STREAM, 0); OKAY("close", closesocket(last)); }
CASE(stream_tcp) { MADE(AF_INET, SOCK_STREAM, IPPROTO_TCP); OKAY("close", closesocket(last)); }
CASE(datagram) { MADE(AF_INET, SOCK_DGRAM, 0); OKAY("close", closesocket(last)); }
CASE(datagram_udp) { MADE(AF_INET, SOCK_DGRAM, IPPROTO_UDP); OKAY("close", closesocket(last)); }
CASE(stream_v6) { MADE(AF_INET6, SOCK_STREAM, 0); OKAY("close", closesocket(last)); }
CASE(datagram_v6) { MADE(AF_INET6, SOCK_DGRAM, 0); OKAY("close", closesocket(last)); }
CASE(unknown_family) { MADE(999, SOCK_STREAM, 0); }
CASE(unknown_kind) { MADE(AF_INET, 77, 0); }
CASE(stream_of_udp) { MADE(AF_INET, SOCK_STREAM, IPPROTO_UDP); }
CASE(datagram_of_tcp) { MADE(AF_INET, SOCK_DGRAM, IPPROTO_TCP); }

CASE(kinds_of_wsasocket)
{
	OKAY("plain", last = WSASocketW(AF_INET, SOCK_STREAM, IPPROTO_TCP, NULL, 0, 0));
	closesocket(last);
	OKAY("overlapped", last = WSASocketA(AF_INET, SOCK_DGRAM, IPPROTO_UDP, NULL, 0, WSA_FLAG_OVERLAPPED));
	closesocket(last);
	OKAY("no-inherit", last = WSASocketW(AF_INET, SOCK_STREAM, IPPROTO_TCP, NULL, 0, WSA_FLAG_NO_HANDLE_INHERIT));
	closesocket(last);
	OKAY("unknown", last = WSASocketW(AF_INET, 77, IPPROTO_TCP, NULL, 0, 0));
}

static SOCKET bound(int kind, struct sockaddr_in *name)
{
	SOCKET s = kind == SOCK_STREAM ? stream() : datagram();
	int length = sizeof(*name);

	*name = here;
	OKAY("bind", bind(s, NAME(*name), sizeof(*name)));
	OKAY("name", getsockname(s, NAME(*name), &length));
	say_name("is", name, length, 0);
	return s;
}

CASE(bind_stream) { struct sockaddr_in name; closesocket(bound(SOCK_STREAM, &name)); }
CASE(bind_datagram) { struct sockaddr_in name; closesocket(bound(SOCK_DGRAM, &name)); }

static void any(int kind)
{
	struct sockaddr_in name = { .sin_family = AF_INET };
	SOCKET s = kind == SOCK_STREAM ? stream() : datagram();
	int length = sizeof(name);

	OKAY("bind", bind(s, NAME(name), sizeof(name)));
	OKAY("name", getsockname(s, NAME(name), &length));
	say_name("is", &name, length, 0);
	closesocket(s);
}

CASE(bind_stream_any) { any(SOCK_STREAM); }
CASE(bind_datagram_any) { any(SOCK_DGRAM); }

CASE(bind_foreign)
{
	struct sockaddr_in name = here;
	SOCKET s = stream(), u = datagram();

	name.sin_addr.s_addr = inet_addr("10.99.9.9");
	OKAY("stream", bind(s, NAME(name), sizeof(name)));
	OKAY("datagram", bind(u, NAME(name), sizeof(name)));
	closesocket(s);
	closesocket(u);
}

CASE(bind_twice)
{
	struct sockaddr_in name;
	SOCKET s = bound(SOCK_STREAM, &name), u = bound(SOCK_DGRAM, &name);

	OKAY("stream", bind(s, NAME(here), sizeof(here)));
	OKAY("datagram", bind(u, NAME(here), sizeof(here)));
	closesocket(s);
	closesocket(u);
}

CASE(bind_bad_arguments)
{
	struct sockaddr_in name = here;
	SOCKET s = stream();

	OKAY("short", bind(s, NAME(name), 4));
	OKAY("null", bind(s, NULL, sizeof(name)));
	name.sin_family = 77;
	OKAY("family", bind(s, NAME(name), sizeof(name)));
	OKAY("v6", bind(s, NAME(here6), sizeof(here6)));
	OKAY("socket", bind(12345, NAME(here), sizeof(here)));
	closesocket(s);
}

/* Two sockets at one port, with options. */
static void shared(int kind, int first_option, int second_option, int is_listening)
{
	struct sockaddr_in name = here;
	SOCKET a = kind == SOCK_STREAM ? stream() : datagram(), b = kind == SOCK_STREAM ? stream() : datagram();
	int length = sizeof(name);

	if (first_option)
		OKAY("option", setsockopt(a, SOL_SOCKET, first_option, (char *)number(1), sizeof(int)));
	if (second_option)
		OKAY("option", setsockopt(b, SOL_SOCKET, second_option, (char *)number(1), sizeof(int)));
	OKAY("first", bind(a, NAME(name), sizeof(name)));
	if (is_listening)
		OKAY("listen", listen(a, 1));
	getsockname(a, NAME(name), &length);
	OKAY("second", bind(b, NAME(name), sizeof(name)));
	closesocket(b);
	closesocket(a);
}

#define SHARED(name, first, second)                                      \
	CASE(shared_stream_##name) { shared(SOCK_STREAM, first, second, 0); } \
	CASE(shared_listener_##name) { shared(SOCK_STREAM, first, second, 1); } \
	CASE(shared_datagram_##name) { shared(SOCK_DGRAM, first, second, 0); }

SHARED(plain, 0, 0)
SHARED(reuse, SO_REUSEADDR, SO_REUSEADDR)
SHARED(reuse_second, 0, SO_REUSEADDR)
SHARED(exclusive, SO_EXCLUSIVEADDRUSE, SO_EXCLUSIVEADDRUSE)
SHARED(exclusive_then_reuse, SO_EXCLUSIVEADDRUSE, SO_REUSEADDR)

CASE(reuse_and_exclusive)
{
	SOCKET s = stream();

	OKAY("reuse", setsockopt(s, SOL_SOCKET, SO_REUSEADDR, (char *)number(1), sizeof(int)));
	OKAY("exclusive", setsockopt(s, SOL_SOCKET, SO_EXCLUSIVEADDRUSE, (char *)number(1), sizeof(int)));
	closesocket(s);
}

CASE(port_again_after_close)
{
	struct sockaddr_in name;
	SOCKET s = listening(&name);

	OKAY("close", closesocket(s));
	s = stream();
	OKAY("bind", bind(s, NAME(name), sizeof(name)));
	OKAY("listen", listen(s, 1));
	closesocket(s);
}

CASE(datagram_port_again_after_close)
{
	struct sockaddr_in name;
	SOCKET s = bound_datagram(&name);

	OKAY("close", closesocket(s));
	s = datagram();
	OKAY("bind", bind(s, NAME(name), sizeof(name)));
	closesocket(s);
}

CASE(listen)
{
	struct sockaddr_in name;
	SOCKET s = bound(SOCK_STREAM, &name);
	int length = sizeof(name), port = ntohs(name.sin_port);

	OKAY("listen", listen(s, 5));
	OKAY("again", listen(s, 10));
	OKAY("name", getsockname(s, NAME(name), &length));
	say_name("is", &name, length, port);
	OKAY("peer", getpeername(s, NAME(name), &length));
	closesocket(s);
}

CASE(listen_of_odd_lengths)
{
	struct sockaddr_in name;
	SOCKET s = bound(SOCK_STREAM, &name);

	OKAY("zero", listen(s, 0));
	OKAY("negative", listen(s, -1));
	OKAY("most", listen(s, SOMAXCONN));
	closesocket(s);
}

CASE(listen_elsewhere)
{
	struct sockaddr_in name;
	SOCKET s = stream(), u = bound(SOCK_DGRAM, &name), c = talk("drain");

	OKAY("unbound", listen(s, 1));
	OKAY("datagram", listen(u, 1));
	OKAY("connected", listen(c, 1));
	OKAY("socket", listen(12345, 1));
	closesocket(s);
	closesocket(u);
	closesocket(c);
}

CASE(names_without_any)
{
	struct sockaddr_in name;
	SOCKET s = stream(), u = datagram();
	int length = sizeof(name);

	OKAY("stream", getsockname(s, NAME(name), &length));
	OKAY("datagram", getsockname(u, NAME(name), &length));
	OKAY("stream-peer", getpeername(s, NAME(name), &length));
	OKAY("datagram-peer", getpeername(u, NAME(name), &length));
	closesocket(s);
	closesocket(u);
}

CASE(names_of_a_connection)
{
	SOCKET s = talk("drain");
	struct sockaddr_in name;
	int length = sizeof(name);

	OKAY("name", getsockname(s, NAME(name), &length));
	say_name("is", &name, length, 0);
	OKAY("peer", getpeername(s, NAME(name), &length));
	say_name("is", &name, length, ntohs(peer.sin_port));
	closesocket(s);
}

CASE(names_with_much_room)
{
	SOCKET s = talk("drain");
	struct sockaddr_storage name;
	int length = sizeof(name);

	OKAY("name", getsockname(s, NAME(name), &length));
	say_name("is", &name, length, 0);
	length = sizeof(name);
	OKAY("peer", getpeername(s, NAME(name), &length));
	say_name("is", &name, length, ntohs(peer.sin_port));
	closesocket(s);
}

CASE(names_with_little_room)
{
	SOCKET s = talk("drain");
	struct sockaddr_in name;
	int length = 8;

	OKAY("name", getsockname(s, NAME(name), &length));
	length = 8;
	OKAY("peer", getpeername(s, NAME(name), &length));
	closesocket(s);
}

CASE(names_without_room)
{
	SOCKET s = talk("drain");
	struct sockaddr_in name;
	int length = sizeof(name);

	OKAY("name", getsockname(s, NULL, &length));
	OKAY("peer", getpeername(s, NULL, &length));
	OKAY("socket", getsockname(12345, NAME(name), &length));
	OKAY("socket", getpeername(12345, NAME(name), &length));
	closesocket(s);
}

CASE(names_without_a_length)
{
	SOCKET s = talk("drain");
	struct sockaddr_in name;

	OKAY("length", getsockname(s, NAME(name), NULL));
	closesocket(s);
}

CASE(peer_without_a_length)
{
	SOCKET s = talk("drain");
	struct sockaddr_in name;

	OKAY("length", getpeername(s, NAME(name), NULL));
	closesocket(s);
}

CASE(names_after_the_end)
{
	SOCKET s = talk("close");
	struct sockaddr_in name;
	int length = sizeof(name);
	char byte;

	NUMBER("recv", recv(s, &byte, 1, 0));
	OKAY("name", getsockname(s, NAME(name), &length));
	OKAY("peer", getpeername(s, NAME(name), &length));
	OKAY("shutdown", shutdown(s, SD_BOTH));
	OKAY("name", getsockname(s, NAME(name), &length));
	OKAY("peer", getpeername(s, NAME(name), &length));
	closesocket(s);
}

CASE(names_after_a_reset)
{
	SOCKET s = talk("reset");
	struct sockaddr_in name;
	int length = sizeof(name);
	char byte;

	NUMBER("recv", recv(s, &byte, 1, 0));
	OKAY("name", getsockname(s, NAME(name), &length));
	OKAY("peer", getpeername(s, NAME(name), &length));
	closesocket(s);
}

CASE(close_twice)
{
	SOCKET s = talk("drain");

	OKAY("close", closesocket(s));
	OKAY("again", closesocket(s));
	OKAY("other", closesocket(12345));
	OKAY("none", closesocket(INVALID_SOCKET));
}

CASE(calls_after_close)
{
	SOCKET s = talk("drain");
	u_long count;
	char byte;
	int value, length = sizeof(value);

	closesocket(s);
	NUMBER("send", send(s, "a", 1, 0));
	NUMBER("recv", recv(s, &byte, 1, 0));
	OKAY("connect", connect(s, NAME(peer), sizeof(peer)));
	OKAY("bind", bind(s, NAME(here), sizeof(here)));
	OKAY("listen", listen(s, 1));
	OKAY("accept", accept(s, NULL, NULL));
	OKAY("shutdown", shutdown(s, SD_BOTH));
	OKAY("ioctl", ioctlsocket(s, FIONREAD, &count));
	OKAY("get", getsockopt(s, SOL_SOCKET, SO_TYPE, (char *)&value, &length));
	OKAY("set", setsockopt(s, SOL_SOCKET, SO_KEEPALIVE, (char *)number(1), sizeof(int)));
}

static DWORD CALLBACK closer(void *s)
{
	Sleep(QUIET);
	closesocket((SOCKET)s);
	return 0;
}

static void closed_meanwhile(SOCKET s)
{
	HANDLE thread = CreateThread(NULL, 0, closer, (void *)s, 0, NULL);

	CloseHandle(thread);
}

CASE(close_while_receiving)
{
	SOCKET s = talk("drain");
	char byte;

	closed_meanwhile(s);
	NUMBER("recv", recv(s, &byte, 1, 0));
}

CASE(close_while_receiving_datagrams)
{
	struct sockaddr_in name;
	SOCKET s = bound_datagram(&name);
	char byte;

	closed_meanwhile(s);
	NUMBER("recv", recv(s, &byte, 1, 0));
}

CASE(close_while_accepting)
{
	struct sockaddr_in name;
	SOCKET s = listening(&name);

	closed_meanwhile(s);
	OKAY("accept", accept(s, NULL, NULL));
}
