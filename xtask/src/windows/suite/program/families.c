/* IPv6, and sockets for both families. */
#include "suite.h"

#define SUBJECT "families"

static char room[4096];

static SOCKET v6(int kind, int only)
{
	SOCKET s = socket(AF_INET6, kind, 0);

	if (only >= 0)
		OKAY("v6only", setsockopt(s, IPPROTO_IPV6, IPV6_V6ONLY, (char *)number(only), sizeof(int)));
	return s;
}

/* The peer's address of IPv4 as one of IPv6. */
static struct sockaddr_in6 mapped(const struct sockaddr_in *v4)
{
	struct sockaddr_in6 name = { .sin6_family = AF_INET6, .sin6_port = v4->sin_port };

	name.sin6_addr.s6_addr[10] = name.sin6_addr.s6_addr[11] = 0xff;
	memcpy(name.sin6_addr.s6_addr + 12, &v4->sin_addr, 4);
	return name;
}

static SOCKET bound(int kind, int only, struct sockaddr_in6 *name)
{
	SOCKET s = v6(kind, only);
	int length = sizeof(*name);

	*name = (struct sockaddr_in6){ .sin6_family = AF_INET6 };
	OKAY("bind", bind(s, NAME(*name), sizeof(*name)));
	getsockname(s, NAME(*name), &length);
	return s;
}

CASE(connection)
{
	SOCKET s = talk6("send:5 drain");
	struct sockaddr_in6 name;
	int length = sizeof(name);

	NUMBER("recv", recv(s, room, 5, MSG_WAITALL));
	OKAY("name", getsockname(s, NAME(name), &length));
	say_name("is", &name, length, 0);
	length = sizeof(name);
	OKAY("peer", getpeername(s, NAME(name), &length));
	say_name("is", &name, length, ntohs(peer6.sin6_port));
	say("flow=%d scope=%d", (int)name.sin6_flowinfo, (int)name.sin6_scope_id);
	closesocket(s);
}

CASE(refused)
{
	SOCKET s = v6(SOCK_STREAM, -1);

	OKAY("connect", connect(s, NAME(closed_port6), sizeof(closed_port6)));
	closesocket(s);
}

CASE(no_route)
{
	struct sockaddr_in6 name = peer6;
	SOCKET s = v6(SOCK_STREAM, -1);

	inet_pton(AF_INET6, "fd98::1", &name.sin6_addr);
	OKAY("connect", connect(s, NAME(name), sizeof(name)));
	closesocket(s);
}

CASE(datagrams)
{
	struct sockaddr_in6 name = { 0 };
	SOCKET s = v6(SOCK_DGRAM, -1);
	int length = sizeof(name);

	NUMBER("send", sendto(s, "abc", 3, 0, NAME(peer6), sizeof(peer6)));
	NUMBER("recv", recvfrom(s, room, sizeof(room), 0, NAME(name), &length));
	say_name("from", &name, length, ntohs(peer6.sin6_port));
	closesocket(s);
}

CASE(datagrams_with_a_peer)
{
	SOCKET s = v6(SOCK_DGRAM, -1);

	OKAY("connect", connect(s, NAME(peer6), sizeof(peer6)));
	NUMBER("send", send(s, "abc", 3, 0));
	NUMBER("recv", recv(s, room, sizeof(room), 0));
	closesocket(s);
}

CASE(no_port)
{
	SOCKET s = v6(SOCK_DGRAM, -1);

	OKAY("connect", connect(s, NAME(closed_port6), sizeof(closed_port6)));
	setsockopt(s, SOL_SOCKET, SO_RCVTIMEO, (char *)number(500), sizeof(int));
	NUMBER("send", send(s, "abc", 3, 0));
	NUMBER("recv", recv(s, room, sizeof(room), 0));
	closesocket(s);
}

CASE(long_datagram)
{
	struct sockaddr_in6 name;
	SOCKET s = bound(SOCK_DGRAM, -1, &name);

	NUMBER("send", sendto(s, "size:3000", 9, 0, NAME(peer6), sizeof(peer6)));
	NUMBER("recv", recv(s, room, sizeof(room), 0));
	say_bytes(room, 3000);
	closesocket(s);
}

static void dual_stream(int only)
{
	struct sockaddr_in6 to = mapped(&peer), name;
	SOCKET s = v6(SOCK_STREAM, only);
	int length = sizeof(name);

	OKAY("connect", connect(s, NAME(to), sizeof(to)));
	if (!getpeername(s, NAME(name), &length))
		say_name("peer", &name, length, ntohs(peer.sin_port));
	length = sizeof(name);
	if (!getsockname(s, NAME(name), &length))
		say_name("name", &name, length, 0);
	closesocket(s);
}

CASE(mapped_connection) { dual_stream(0); }
CASE(mapped_connection_with_v6only) { dual_stream(1); }
CASE(mapped_connection_by_default) { dual_stream(-1); }

static void dual_datagram(int only)
{
	struct sockaddr_in6 to = mapped(&peer), name = { 0 };
	SOCKET s = v6(SOCK_DGRAM, only);
	int length = sizeof(name), result;

	NUMBER("send", result = sendto(s, "abc", 3, 0, NAME(to), sizeof(to)));
	if (result == 3) {
		NUMBER("recv", recvfrom(s, room, sizeof(room), 0, NAME(name), &length));
		say_name("from", &name, length, ntohs(peer.sin_port));
	}
	closesocket(s);
}

CASE(mapped_datagram) { dual_datagram(0); }
CASE(mapped_datagram_with_v6only) { dual_datagram(1); }

/* (Servers of IPv6 have no peer here: Wine 8 lists no routes of IPv6, so the lane knows no way
 * back.) */
static void dual_listener(int only, const char *script)
{
	struct sockaddr_in6 name;
	SOCKET s = bound(SOCK_STREAM, only, &name), control, one;
	char line[128];
	int length = sizeof(name);

	OKAY("listen", listen(s, 5));
	snprintf(line, sizeof(line), "dial:%d %s", ntohs(name.sin6_port), script);
	control = talk(line);
	heard(control);
	nonblocking(s);
	OKAY("accept", one = accept(s, NAME(name), &length));
	if (one != INVALID_SOCKET) {
		say_name("from", &name, length, 0);
		length = sizeof(name);
		OKAY("name", getsockname(one, NAME(name), &length));
		say_name("is", &name, length, 0);
		closesocket(one);
	}
	closesocket(control);
	closesocket(s);
}

CASE(dual_listener_v4) { dual_listener(0, "tell drain"); }
CASE(v6_listener_v4) { dual_listener(1, "tell drain"); }
CASE(default_listener_v4) { dual_listener(-1, "tell drain"); }

static void dual_receiver(int only, int is_v6)
{
	struct sockaddr_in6 name;
	SOCKET s = bound(SOCK_DGRAM, only, &name), control;
	char line[128];
	int length = sizeof(name);

	snprintf(line, sizeof(line), "udp:%d:5 tell", ntohs(name.sin6_port));
	control = is_v6 ? talk6(line) : talk(line);
	heard(control);
	setsockopt(s, SOL_SOCKET, SO_RCVTIMEO, (char *)number(200), sizeof(int));
	NUMBER("recv", recvfrom(s, room, sizeof(room), 0, NAME(name), &length));
	say_name("from", &name, length, 0);
	closesocket(control);
	closesocket(s);
}

CASE(dual_receiver_v4) { dual_receiver(0, 0); }
CASE(dual_receiver_v6) { dual_receiver(0, 1); }
CASE(v6_receiver_v4) { dual_receiver(1, 0); }
CASE(v6_receiver_v6) { dual_receiver(1, 1); }

CASE(both_families_at_a_port)
{
	struct sockaddr_in6 name;
	struct sockaddr_in v4 = { .sin_family = AF_INET };
	SOCKET s = bound(SOCK_STREAM, 1, &name), t = stream();

	v4.sin_port = name.sin6_port;
	OKAY("v4", bind(t, NAME(v4), sizeof(v4)));
	OKAY("listen", listen(s, 1));
	OKAY("listen", listen(t, 1));
	closesocket(s);
	closesocket(t);
}

CASE(a_dual_one_has_both)
{
	struct sockaddr_in6 name;
	struct sockaddr_in v4 = { .sin_family = AF_INET };
	SOCKET s = bound(SOCK_STREAM, 0, &name), t = stream();

	v4.sin_port = name.sin6_port;
	OKAY("v4", bind(t, NAME(v4), sizeof(v4)));
	closesocket(s);
	closesocket(t);
}

CASE(wrong_names)
{
	SOCKET s = v6(SOCK_STREAM, -1), u = v6(SOCK_DGRAM, -1);

	OKAY("bind", bind(s, NAME(here), sizeof(here)));
	OKAY("short", bind(s, NAME(here6), sizeof(here)));
	OKAY("connect", connect(s, NAME(peer), sizeof(peer)));
	NUMBER("send", sendto(u, "a", 1, 0, NAME(peer), sizeof(peer)));
	closesocket(s);
	closesocket(u);
}

CASE(v6only_after_bind)
{
	struct sockaddr_in6 name;
	SOCKET s = bound(SOCK_STREAM, -1, &name);

	OKAY("set", setsockopt(s, IPPROTO_IPV6, IPV6_V6ONLY, (char *)number(0), sizeof(int)));
	closesocket(s);
}
