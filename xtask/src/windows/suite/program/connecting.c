/* Connecting and accepting: success, refusal, no way, without blocking. */
#include "suite.h"

#define SUBJECT "connecting"

static void pending_error(SOCKET s)
{
	int error = -1, length = sizeof(error);

	OKAY("get", getsockopt(s, SOL_SOCKET, SO_ERROR, (char *)&error, &length));
	say_error("pending", error);
}

CASE(connect)
{
	SOCKET s = stream();

	OKAY("connect", connect(s, NAME(peer), sizeof(peer)));
	pending_error(s);
	OKAY("again", connect(s, NAME(peer), sizeof(peer)));
	closesocket(s);
}

CASE(connect_from_a_port)
{
	struct sockaddr_in name = here;
	SOCKET s = stream();
	int length = sizeof(name), port;

	OKAY("bind", bind(s, NAME(name), sizeof(name)));
	getsockname(s, NAME(name), &length);
	port = ntohs(name.sin_port);
	OKAY("connect", connect(s, NAME(peer), sizeof(peer)));
	getsockname(s, NAME(name), &length);
	say_name("name", &name, length, port);
	closesocket(s);
}

CASE(wsaconnect)
{
	SOCKET s = stream();

	OKAY("connect", WSAConnect(s, NAME(peer), sizeof(peer), NULL, NULL, NULL, NULL));
	NUMBER("send", send(s, "drain\n", 6, 0));
	closesocket(s);
}

CASE(refused)
{
	SOCKET s = stream();

	OKAY("connect", connect(s, NAME(closed_port), sizeof(closed_port)));
	pending_error(s);
	closesocket(s);
}

CASE(refused_then_connected)
{
	SOCKET s = stream();

	OKAY("refused", connect(s, NAME(closed_port), sizeof(closed_port)));
	OKAY("connect", connect(s, NAME(peer), sizeof(peer)));
	NUMBER("send", send(s, "drain\n", 6, 0));
	closesocket(s);
}

CASE(refused_then_used)
{
	SOCKET s = stream();
	char byte;

	OKAY("refused", connect(s, NAME(closed_port), sizeof(closed_port)));
	NUMBER("send", send(s, "a", 1, 0));
	NUMBER("recv", recv(s, &byte, 1, 0));
	closesocket(s);
}

static void no_way(const char *address)
{
	struct sockaddr_in name = peer;
	SOCKET s = stream();

	name.sin_addr.s_addr = inet_addr(address);
	OKAY("connect", connect(s, NAME(name), sizeof(name)));
	closesocket(s);
}

CASE(no_route) { no_way("10.98.0.1"); }
CASE(route_unreachable) { no_way("10.99.0.1"); }
CASE(broadcast) { no_way("255.255.255.255"); }
CASE(group) { no_way("224.0.0.77"); }

CASE(port_zero)
{
	struct sockaddr_in name = peer;
	SOCKET s = stream();

	name.sin_port = 0;
	OKAY("connect", connect(s, NAME(name), sizeof(name)));
	closesocket(s);
}

CASE(connect_bad_arguments)
{
	struct sockaddr_in name = peer;
	SOCKET s = stream();

	OKAY("short", connect(s, NAME(name), 4));
	name.sin_family = 77;
	OKAY("family", connect(s, NAME(name), sizeof(name)));
	OKAY("v6", connect(s, NAME(peer6), sizeof(peer6)));
	OKAY("socket", connect(12345, NAME(peer), sizeof(peer)));
	OKAY("still", connect(s, NAME(peer), sizeof(peer)));
	closesocket(s);
}

CASE(connect_without_a_name)
{
	SOCKET s = stream();

	OKAY("null", connect(s, NULL, sizeof(peer)));
	closesocket(s);
}

CASE(connect_of_a_listener)
{
	struct sockaddr_in name;
	SOCKET s = listening(&name);

	OKAY("connect", connect(s, NAME(peer), sizeof(peer)));
	closesocket(s);
}

/* Waits until a connection is there or has failed; says which set has it. */
static void settled(SOCKET s)
{
	struct timeval time = { 4, 0 };
	fd_set out, exception;

	FD_ZERO(&out);
	FD_ZERO(&exception);
	FD_SET(s, &out);
	FD_SET(s, &exception);
	NUMBER("select", select(0, NULL, &out, &exception, &time));
	say("out=%d exception=%d", FD_ISSET(s, &out) != 0, FD_ISSET(s, &exception) != 0);
}

CASE(without_blocking)
{
	SOCKET s = stream();

	nonblocking(s);
	OKAY("connect", connect(s, NAME(peer), sizeof(peer)));
	settled(s);
	pending_error(s);
	OKAY("again", connect(s, NAME(peer), sizeof(peer)));
	NUMBER("send", send(s, "drain\n", 6, 0));
	closesocket(s);
}

CASE(refused_without_blocking)
{
	SOCKET s = stream();

	nonblocking(s);
	OKAY("connect", connect(s, NAME(closed_port), sizeof(closed_port)));
	settled(s);
	pending_error(s);
	pending_error(s);
	closesocket(s);
}

CASE(refused_without_blocking_then_connected)
{
	SOCKET s = stream();

	nonblocking(s);
	OKAY("connect", connect(s, NAME(closed_port), sizeof(closed_port)));
	settled(s);
	pending_error(s);
	OKAY("again", connect(s, NAME(peer), sizeof(peer)));
	settled(s);
	NUMBER("send", send(s, "drain\n", 6, 0));
	closesocket(s);
}

CASE(unreachable_without_blocking)
{
	struct sockaddr_in name = peer;
	SOCKET s = stream();

	name.sin_addr.s_addr = inet_addr("10.99.0.1");
	nonblocking(s);
	OKAY("connect", connect(s, NAME(name), sizeof(name)));
	settled(s);
	pending_error(s);
	closesocket(s);
}

/* Nothing answers there: a connection stays under way. */
static SOCKET under_way(void)
{
	struct sockaddr_in name = peer;
	SOCKET s = stream();

	name.sin_addr.s_addr = inet_addr("10.97.0.1");
	nonblocking(s);
	OKAY("connect", connect(s, NAME(name), sizeof(name)));
	return s;
}

CASE(under_way)
{
	SOCKET s = under_way();
	struct sockaddr_in name;
	int length = sizeof(name);
	char byte;

	OKAY("again", connect(s, NAME(peer), sizeof(peer)));
	NUMBER("send", send(s, "a", 1, 0));
	NUMBER("recv", recv(s, &byte, 1, 0));
	OKAY("peer", getpeername(s, NAME(name), &length));
	OKAY("shutdown", shutdown(s, SD_SEND));
	OKAY("listen", listen(s, 1));
	pending_error(s);
	OKAY("close", closesocket(s));
}

CASE(closed_under_way)
{
	SOCKET s = under_way();

	OKAY("close", closesocket(s));
	NUMBER("send", send(s, "a", 1, 0));
}

CASE(accept)
{
	struct sockaddr_in name;
	SOCKET s = listening(&name), control = dialled(&name, "send:5 drain tell"), one;
	int length = sizeof(name), port = ntohs(name.sin_port);
	char bytes[8];

	OKAY("accept", one = accept(s, NAME(name), &length));
	say_name("from", &name, length, 0);
	OKAY("name", getsockname(one, NAME(name), &length));
	say_name("is", &name, length, port);
	OKAY("peer", getpeername(one, NAME(name), &length));
	say_name("is", &name, length, 0);
	NUMBER("recv", recv(one, bytes, sizeof(bytes), 0));
	NUMBER("send", send(one, "abc", 3, 0));
	closesocket(one);
	heard(control);
	closesocket(control);
	closesocket(s);
}

CASE(accept_without_name)
{
	struct sockaddr_in name;
	SOCKET s = listening(&name), control = dialled(&name, "drain tell"), one;

	OKAY("accept", one = accept(s, NULL, NULL));
	closesocket(one);
	heard(control);
	closesocket(control);
	closesocket(s);
}

CASE(accept_with_little_room)
{
	struct sockaddr_in name;
	SOCKET s = listening(&name), control = dialled(&name, "drain tell"), one;
	int length = 4;

	readable(s);
	OKAY("accept", one = accept(s, NAME(name), &length));
	if (one != INVALID_SOCKET)
		closesocket(one);
	closesocket(control);
	closesocket(s);
}

CASE(accept_with_a_name_alone)
{
	struct sockaddr_in name;
	SOCKET s = listening(&name), control = dialled(&name, "drain tell"), one;

	readable(s);
	OKAY("accept", one = accept(s, NAME(name), NULL));
	if (one != INVALID_SOCKET)
		closesocket(one);
	closesocket(control);
	closesocket(s);
}

CASE(wsaaccept)
{
	struct sockaddr_in name;
	SOCKET s = listening(&name), control = dialled(&name, "drain tell"), one;
	int length = sizeof(name);

	OKAY("accept", one = WSAAccept(s, NAME(name), &length, NULL, 0));
	say_name("from", &name, length, 0);
	closesocket(one);
	heard(control);
	closesocket(control);
	closesocket(s);
}

static int CALLBACK condition(WSABUF *id, WSABUF *data, QOS *a, QOS *b, WSABUF *to, WSABUF *answer, GROUP *g,
			      DWORD_PTR wanted)
{
	struct sockaddr_in *from = (void *)id->buf;

	say("asked=%d/%lu", from->sin_family, (unsigned long)id->len);
	return (int)wanted;
}

static void conditional(int answer)
{
	struct sockaddr_in name;
	SOCKET s = listening(&name), control = dialled(&name, "drain tell"), one;

	readable(s);
	OKAY("accept", one = WSAAccept(s, NULL, NULL, condition, answer));
	if (one != INVALID_SOCKET)
		closesocket(one);
	heard(control);
	closesocket(control);
	closesocket(s);
}

CASE(condition_accepts) { conditional(CF_ACCEPT); }
CASE(condition_rejects) { conditional(CF_REJECT); }

CASE(accept_elsewhere)
{
	struct sockaddr_in name = here;
	SOCKET s = stream(), u = datagram(), c = talk("drain");

	OKAY("unbound", accept(s, NULL, NULL));
	bind(s, NAME(name), sizeof(name));
	OKAY("bound", accept(s, NULL, NULL));
	OKAY("datagram", accept(u, NULL, NULL));
	OKAY("connected", accept(c, NULL, NULL));
	OKAY("socket", accept(12345, NULL, NULL));
	closesocket(s);
	closesocket(u);
	closesocket(c);
}

CASE(accept_without_blocking)
{
	struct sockaddr_in name;
	SOCKET s = listening(&name), control, one;
	char byte;

	nonblocking(s);
	OKAY("none", accept(s, NULL, NULL));
	control = dialled(&name, "go drain tell");
	readable(s);
	OKAY("one", one = accept(s, NULL, NULL));
	/* It does not block, either. */
	NUMBER("recv", recv(one, &byte, 1, 0));
	send(control, "g", 1, 0);
	closesocket(one);
	heard(control);
	closesocket(control);
	closesocket(s);
}

CASE(accept_inherits_options)
{
	struct sockaddr_in name;
	SOCKET s = listening(&name), control, one;
	int value = 0, length = sizeof(value);
	struct linger linger = { 1, 7 };

	setsockopt(s, SOL_SOCKET, SO_KEEPALIVE, (char *)number(1), sizeof(int));
	setsockopt(s, IPPROTO_TCP, TCP_NODELAY, (char *)number(1), sizeof(int));
	setsockopt(s, SOL_SOCKET, SO_RCVTIMEO, (char *)number(300), sizeof(int));
	setsockopt(s, SOL_SOCKET, SO_LINGER, (char *)&linger, sizeof(linger));
	control = dialled(&name, "drain");
	one = accept(s, NULL, NULL);
	getsockopt(one, SOL_SOCKET, SO_KEEPALIVE, (char *)&value, &length);
	say("keepalive=%d", value & 1);
	length = sizeof(value);
	getsockopt(one, IPPROTO_TCP, TCP_NODELAY, (char *)&value, &length);
	say("nodelay=%d", value & 1);
	length = sizeof(value);
	getsockopt(one, SOL_SOCKET, SO_RCVTIMEO, (char *)&value, &length);
	say("timeout=%d", value);
	length = sizeof(linger);
	getsockopt(one, SOL_SOCKET, SO_LINGER, (char *)&linger, &length);
	say("linger=%d/%d", linger.l_onoff, linger.l_linger);
	length = sizeof(value);
	getsockopt(one, SOL_SOCKET, SO_ACCEPTCONN, (char *)&value, &length);
	say("listens=%d", value & 1);
	closesocket(one);
	closesocket(control);
	closesocket(s);
}

CASE(accept_many)
{
	struct sockaddr_in name;
	SOCKET s = listening(&name), controls[5], one;

	for (int i = 0; i < 5; i++)
		controls[i] = dialled(&name, "drain tell");
	for (int i = 0; i < 5; i++) {
		OKAY("accept", one = accept(s, NULL, NULL));
		closesocket(one);
	}
	for (int i = 0; i < 5; i++) {
		heard(controls[i]);
		closesocket(controls[i]);
	}
	closesocket(s);
}

CASE(accept_one_that_was_reset)
{
	struct sockaddr_in name;
	SOCKET s = listening(&name), control = dialled(&name, "reset tell"), one;
	char byte;

	heard(control);
	Sleep(QUIET);
	nonblocking(s);
	OKAY("accept", one = accept(s, NULL, NULL));
	if (one != INVALID_SOCKET)
		NUMBER("recv", recv(one, &byte, 1, 0));
	closesocket(one);
	closesocket(control);
	closesocket(s);
}

CASE(accept_one_that_has_ended)
{
	struct sockaddr_in name;
	SOCKET s = listening(&name), control = dialled(&name, "send:3 fin tell drain"), one;
	char bytes[4];

	heard(control);
	OKAY("accept", one = accept(s, NULL, NULL));
	NUMBER("recv", recv(one, bytes, sizeof(bytes), MSG_WAITALL));
	NUMBER("recv", recv(one, bytes, sizeof(bytes), 0));
	closesocket(one);
	closesocket(control);
	closesocket(s);
}

CASE(listener_closed_before_accept)
{
	struct sockaddr_in name;
	SOCKET s = listening(&name), control = dialled(&name, "drain tell");

	readable(s);
	closesocket(s);
	heard(control);
	closesocket(control);
}

CASE(dialled_after_close)
{
	struct sockaddr_in name;
	SOCKET s = listening(&name), control;

	closesocket(s);
	control = dialled(&name, "tell");
	heard(control);
	closesocket(control);
}

CASE(calls_on_a_listener)
{
	struct sockaddr_in name;
	SOCKET s = listening(&name);
	char byte;
	u_long count;

	nonblocking(s);
	NUMBER("send", send(s, "a", 1, 0));
	NUMBER("recv", recv(s, &byte, 1, 0));
	OKAY("shutdown", shutdown(s, SD_BOTH));
	OKAY("bytes", ioctlsocket(s, FIONREAD, &count));
	closesocket(s);
}
