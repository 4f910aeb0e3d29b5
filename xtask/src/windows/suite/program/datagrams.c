/* Datagrams: lengths, senders, connected sockets. */
#include "suite.h"

#define SUBJECT "datagrams"

static char room[70000];

CASE(echo)
{
	struct sockaddr_in name = { 0 };
	SOCKET s = bound_datagram(&name);
	int length = sizeof(name);

	NUMBER("send", sendto(s, "abc", 3, 0, NAME(peer), sizeof(peer)));
	NUMBER("recv", recvfrom(s, room, sizeof(room), 0, NAME(name), &length));
	say_name("from", &name, length, ntohs(peer.sin_port));
	say_bytes(room, 3);
	closesocket(s);
}

CASE(echo_of_one_not_bound)
{
	SOCKET s = datagram();
	struct sockaddr_in name;
	int length = sizeof(name);

	NUMBER("send", sendto(s, "abc", 3, 0, NAME(peer), sizeof(peer)));
	OKAY("name", getsockname(s, NAME(name), &length));
	say_name("is", &name, length, 0);
	NUMBER("recv", recv(s, room, sizeof(room), 0));
	closesocket(s);
}

CASE(recv_of_one_not_bound)
{
	SOCKET s = datagram();

	nonblocking(s);
	NUMBER("recv", recv(s, room, sizeof(room), 0));
	NUMBER("recvfrom", recvfrom(s, room, sizeof(room), 0, NULL, NULL));
	closesocket(s);
}

CASE(send_without_a_peer)
{
	struct sockaddr_in name;
	SOCKET s = datagram(), b = bound_datagram(&name);

	NUMBER("fresh", send(s, "a", 1, 0));
	NUMBER("bound", send(b, "a", 1, 0));
	NUMBER("null", sendto(b, "a", 1, 0, NULL, 0));
	closesocket(s);
	closesocket(b);
}

CASE(empty)
{
	struct sockaddr_in name = { 0 };
	SOCKET s = bound_datagram(&name);
	int length = sizeof(name);

	NUMBER("send", sendto(s, "", 0, 0, NAME(peer), sizeof(peer)));
	NUMBER("recv", recvfrom(s, room, sizeof(room), 0, NAME(name), &length));
	say_name("from", &name, length, ntohs(peer.sin_port));
	closesocket(s);
}

CASE(empty_among_others)
{
	struct sockaddr_in name;
	SOCKET s = bound_datagram(&name);

	ask(s, "size:1,0,2");
	for (int i = 0; i < 3; i++)
		NUMBER("recv", recv(s, room, sizeof(room), 0));
	closesocket(s);
}

CASE(empty_buffer)
{
	struct sockaddr_in name;
	SOCKET s = bound_datagram(&name);

	ask(s, "size:5,6");
	readable(s);
	NUMBER("none", recv(s, room, 0, 0));
	NUMBER("recv", recv(s, room, sizeof(room), 0));
	closesocket(s);
}

static void length(int size)
{
	struct sockaddr_in name;
	SOCKET s = bound_datagram(&name);
	int result;

	for (int i = 0; i < size; i++)
		room[i] = 'a' + i % 26;
	NUMBER("send", result = sendto(s, room, size, 0, NAME(peer), sizeof(peer)));
	if (result == size) {
		memset(room, 0, sizeof(room));
		NUMBER("recv", recv(s, room, sizeof(room), 0));
		say_bytes(room, size);
	}
	closesocket(s);
}

CASE(length_1472) { length(1472); }
CASE(length_1473) { length(1473); }
CASE(length_9000) { length(9000); }
CASE(length_65507) { length(65507); }
CASE(length_65508) { length(65508); }

CASE(cut)
{
	struct sockaddr_in name = { 0 };
	SOCKET s = bound_datagram(&name);
	int length = sizeof(name);

	ask(s, "size:10,3");
	NUMBER("recv", recvfrom(s, room, 4, 0, NAME(name), &length));
	say_bytes(room, 4);
	say_name("from", &name, length, ntohs(peer.sin_port));
	NUMBER("next", recv(s, room, sizeof(room), 0));
	closesocket(s);
}

CASE(cut_by_wsarecv)
{
	struct sockaddr_in name;
	SOCKET s = bound_datagram(&name);
	WSABUF parts[] = { { 2, room }, { 3, room + 2 } };
	DWORD count = 77, flags = 0;

	ask(s, "size:10,3");
	readable(s);
	OKAY("recv", WSARecv(s, parts, 2, &count, &flags, NULL, NULL));
	say("count=%lu flags=%lx", (unsigned long)count, (unsigned long)flags);
	say_bytes(room, 5);
	NUMBER("next", recv(s, room, sizeof(room), 0));
	closesocket(s);
}

CASE(cut_by_wsarecvfrom_overlapped)
{
	struct sockaddr_in name;
	SOCKET s = bound_datagram(&name);
	WSABUF part = { 4, room };
	OVERLAPPED overlapped = with_event();
	int length = sizeof(name);
	DWORD flags = 0;

	ask(s, "size:10");
	if (WSARecvFrom(s, &part, 1, NULL, &flags, NAME(name), &length, &overlapped, NULL) &&
	    WSAGetLastError() != WSA_IO_PENDING)
		say_number("recv", -1);
	finished("done", s, &overlapped);
	say_name("from", &name, length, ntohs(peer.sin_port));
	closesocket(s);
}

CASE(peek)
{
	struct sockaddr_in name;
	SOCKET s = bound_datagram(&name);

	ask(s, "size:6");
	NUMBER("peek", recv(s, room, sizeof(room), MSG_PEEK));
	NUMBER("cut", recv(s, room, 3, MSG_PEEK));
	NUMBER("recv", recv(s, room, sizeof(room), 0));
	say_bytes(room, 6);
	closesocket(s);
}

CASE(waitall)
{
	struct sockaddr_in name;
	SOCKET s = bound_datagram(&name);

	ask(s, "size:6,6");
	readable(s);
	NUMBER("recv", recv(s, room, 12, MSG_WAITALL));
	closesocket(s);
}

CASE(bytes_to_be_received)
{
	struct sockaddr_in name;
	SOCKET s = bound_datagram(&name);
	u_long count = 77;

	OKAY("none", ioctlsocket(s, FIONREAD, &count));
	say("bytes=%lu", (unsigned long)count);
	ask(s, "size:6");
	readable(s);
	OKAY("one", ioctlsocket(s, FIONREAD, &count));
	say("bytes=%lu", (unsigned long)count);
	closesocket(s);
}

CASE(connected)
{
	SOCKET s = datagram();
	struct sockaddr_in name;
	int length = sizeof(name);

	OKAY("connect", connect(s, NAME(peer), sizeof(peer)));
	OKAY("name", getsockname(s, NAME(name), &length));
	say_name("is", &name, length, 0);
	OKAY("peer", getpeername(s, NAME(name), &length));
	say_name("is", &name, length, ntohs(peer.sin_port));
	NUMBER("send", send(s, "abc", 3, 0));
	NUMBER("recv", recvfrom(s, room, sizeof(room), 0, NAME(name), &length));
	say_name("from", &name, length, ntohs(peer.sin_port));
	closesocket(s);
}

CASE(connected_and_another_destination)
{
	SOCKET s = datagram();

	OKAY("connect", connect(s, NAME(closed_port), sizeof(closed_port)));
	NUMBER("send", sendto(s, "abc", 3, 0, NAME(peer), sizeof(peer)));
	closesocket(s);
}

CASE(connected_hears_its_peer_alone)
{
	struct sockaddr_in name;
	SOCKET s = bound_datagram(&name);

	OKAY("connect", connect(s, NAME(peer), sizeof(peer)));
	NUMBER("send", send(s, "other:4", 7, 0));
	NUMBER("send", send(s, "abc", 3, 0));
	NUMBER("recv", recv(s, room, sizeof(room), 0));
	closesocket(s);
}

CASE(another_port_is_heard)
{
	struct sockaddr_in name;
	SOCKET s = bound_datagram(&name);

	ask(s, "other:4");
	NUMBER("recv", recv(s, room, sizeof(room), 0));
	closesocket(s);
}

CASE(connected_anew)
{
	SOCKET s = datagram();
	struct sockaddr_in name;
	int length = sizeof(name);

	OKAY("connect", connect(s, NAME(closed_port), sizeof(closed_port)));
	OKAY("again", connect(s, NAME(peer), sizeof(peer)));
	OKAY("peer", getpeername(s, NAME(name), &length));
	say_name("is", &name, length, ntohs(peer.sin_port));
	NUMBER("send", send(s, "abc", 3, 0));
	NUMBER("recv", recv(s, room, sizeof(room), 0));
	closesocket(s);
}

CASE(disconnected)
{
	struct sockaddr_in none = { .sin_family = AF_INET }, name;
	SOCKET s = datagram();
	int length = sizeof(name);

	OKAY("connect", connect(s, NAME(peer), sizeof(peer)));
	OKAY("none", connect(s, NAME(none), sizeof(none)));
	OKAY("peer", getpeername(s, NAME(name), &length));
	nonblocking(s);
	NUMBER("send", send(s, "abc", 3, 0));
	NUMBER("sendto", sendto(s, "abc", 3, 0, NAME(peer), sizeof(peer)));
	readable(s);
	NUMBER("recv", recv(s, room, sizeof(room), 0));
	closesocket(s);
}

CASE(connected_to_any_address)
{
	struct sockaddr_in any = { .sin_family = AF_INET, .sin_port = peer.sin_port }, name;
	SOCKET s = datagram(), b = bound_datagram(&name);

	OKAY("fresh", connect(s, NAME(any), sizeof(any)));
	OKAY("bound", connect(b, NAME(any), sizeof(any)));
	OKAY("peer", connect(b, NAME(peer), sizeof(peer)));
	OKAY("again", connect(b, NAME(any), sizeof(any)));
	closesocket(s);
	closesocket(b);
}

CASE(disconnected_by_a_family)
{
	struct sockaddr none = { .sa_family = AF_UNSPEC };
	SOCKET s = datagram();
	struct sockaddr_in name;
	int length = sizeof(name);

	OKAY("connect", connect(s, NAME(peer), sizeof(peer)));
	OKAY("none", connect(s, &none, sizeof(none)));
	OKAY("peer", getpeername(s, NAME(name), &length));
	closesocket(s);
}

CASE(connected_to_the_loopback)
{
	struct sockaddr_in name, loopback = { .sin_family = AF_INET };
	SOCKET s = bound_datagram(&name), other = datagram();
	int length = sizeof(loopback);

	ask(s, "size:2");
	NUMBER("recv", recv(s, room, sizeof(room), 0));
	loopback.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
	OKAY("bind", bind(other, NAME(loopback), sizeof(loopback)));
	OKAY("name", getsockname(other, NAME(loopback), &length));
	OKAY("connect", connect(s, NAME(loopback), sizeof(loopback)));
	NUMBER("send", send(s, "abc", 3, 0));
	NUMBER("recv", recv(other, room, sizeof(room), 0));
	closesocket(s);
	closesocket(other);
}

CASE(sent_and_closed)
{
	SOCKET s = datagram(), asking = datagram();
	int i, length;

	for (i = 0; i < 100; i++)
		ask(s, "+closed");
	OKAY("close", closesocket(s));
	Sleep(QUIET);
	ask(asking, "sum:closed");
	length = recv(asking, room, sizeof(room), 0);
	say("come=%.*s", length > 0 ? length : 0, room);
	closesocket(asking);
}

CASE(broadcast)
{
	struct sockaddr_in name, to = peer;
	SOCKET s = bound_datagram(&name);

	to.sin_addr.s_addr = INADDR_BROADCAST;
	NUMBER("denied", sendto(s, "a", 1, 0, NAME(to), sizeof(to)));
	OKAY("set", setsockopt(s, SOL_SOCKET, SO_BROADCAST, (char *)number(1), sizeof(int)));
	NUMBER("send", sendto(s, "a", 1, 0, NAME(to), sizeof(to)));
	closesocket(s);
}

CASE(port_zero)
{
	struct sockaddr_in name, to = peer;
	SOCKET s = bound_datagram(&name);

	to.sin_port = 0;
	NUMBER("send", sendto(s, "a", 1, 0, NAME(to), sizeof(to)));
	closesocket(s);
}

CASE(to_itself)
{
	struct sockaddr_in name;
	SOCKET s = bound_datagram(&name);

	NUMBER("send", sendto(s, "abc", 3, 0, NAME(name), sizeof(name)));
	NUMBER("recv", recv(s, room, sizeof(room), 0));
	closesocket(s);
}

CASE(by_the_loopback)
{
	struct sockaddr_in name = { .sin_family = AF_INET }, to;
	SOCKET s = datagram();
	int length = sizeof(to);

	OKAY("bind", bind(s, NAME(name), sizeof(name)));
	getsockname(s, NAME(to), &length);
	to.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
	NUMBER("send", sendto(s, "abc", 3, 0, NAME(to), sizeof(to)));
	NUMBER("recv", recv(s, room, sizeof(room), 0));
	closesocket(s);
}

CASE(timeout)
{
	struct sockaddr_in name;
	SOCKET s = bound_datagram(&name);
	DWORD begin = GetTickCount();

	OKAY("set", setsockopt(s, SOL_SOCKET, SO_RCVTIMEO, (char *)number(100), sizeof(int)));
	NUMBER("recv", recv(s, room, sizeof(room), 0));
	say("waited=%d", GetTickCount() - begin >= 80);
	NUMBER("recvfrom", recvfrom(s, room, sizeof(room), 0, NULL, NULL));
	closesocket(s);
}

CASE(without_blocking)
{
	struct sockaddr_in name;
	SOCKET s = bound_datagram(&name);

	nonblocking(s);
	NUMBER("none", recv(s, room, sizeof(room), 0));
	ask(s, "abc");
	readable(s);
	NUMBER("recv", recv(s, room, sizeof(room), 0));
	NUMBER("none", recv(s, room, sizeof(room), 0));
	closesocket(s);
}

CASE(shutdown_of_sending)
{
	SOCKET s = datagram();

	OKAY("connect", connect(s, NAME(peer), sizeof(peer)));
	OKAY("shutdown", shutdown(s, SD_SEND));
	NUMBER("send", send(s, "a", 1, 0));
	closesocket(s);
}

CASE(shutdown_of_receiving)
{
	SOCKET s = datagram();

	OKAY("connect", connect(s, NAME(peer), sizeof(peer)));
	OKAY("shutdown", shutdown(s, SD_RECEIVE));
	NUMBER("recv", recv(s, room, sizeof(room), 0));
	closesocket(s);
}

CASE(shutdown_without_a_peer)
{
	struct sockaddr_in name;
	SOCKET s = bound_datagram(&name), u = datagram();

	OKAY("bound", shutdown(s, SD_SEND));
	OKAY("fresh", shutdown(u, SD_SEND));
	closesocket(s);
	closesocket(u);
}

CASE(parts)
{
	struct sockaddr_in name = { 0 };
	SOCKET s = bound_datagram(&name);
	WSABUF out[] = { { 1, "a" }, { 2, "bc" } }, in[] = { { 2, room }, { 5, room + 2 } };
	DWORD count = 77, flags = 0;
	int length = sizeof(name);

	OKAY("send", WSASendTo(s, out, 2, &count, 0, NAME(peer), sizeof(peer), NULL, NULL));
	say("count=%lu", (unsigned long)count);
	OKAY("recv", WSARecvFrom(s, in, 2, &count, &flags, NAME(name), &length, NULL, NULL));
	say("count=%lu flags=%lx", (unsigned long)count, (unsigned long)flags);
	say_bytes(room, 3);
	say_name("from", &name, length, ntohs(peer.sin_port));
	closesocket(s);
}

CASE(wsasend_of_a_connected_one)
{
	SOCKET s = datagram();
	WSABUF part = { 3, "abc" }, in = { 9, room };
	DWORD count = 77, flags = 0;

	OKAY("connect", WSAConnect(s, NAME(peer), sizeof(peer), NULL, NULL, NULL, NULL));
	OKAY("send", WSASend(s, &part, 1, &count, 0, NULL, NULL));
	OKAY("recv", WSARecv(s, &in, 1, &count, &flags, NULL, NULL));
	say("count=%lu flags=%lx", (unsigned long)count, (unsigned long)flags);
	closesocket(s);
}

CASE(sender_with_little_room)
{
	struct sockaddr_in name;
	SOCKET s = bound_datagram(&name);
	int length = 4;

	ask(s, "abc");
	readable(s);
	NUMBER("recv", recvfrom(s, room, sizeof(room), 0, NAME(name), &length));
	ask(s, "abc");
	readable(s);
	NUMBER("null", recvfrom(s, room, sizeof(room), MSG_PEEK, NAME(name), NULL));
	closesocket(s);
}

CASE(bad_arguments)
{
	struct sockaddr_in name, to = peer;
	SOCKET s = bound_datagram(&name);

	NUMBER("short", sendto(s, "a", 1, 0, NAME(to), 4));
	to.sin_family = 77;
	NUMBER("family", sendto(s, "a", 1, 0, NAME(to), sizeof(to)));
	NUMBER("v6", sendto(s, "a", 1, 0, NAME(peer6), sizeof(peer6)));
	NUMBER("socket", sendto(12345, "a", 1, 0, NAME(peer), sizeof(peer)));
	NUMBER("socket", recvfrom(12345, room, 1, 0, NULL, NULL));
	NUMBER("accept", accept(s, NULL, NULL));
	closesocket(s);
}

CASE(dontroute)
{
	struct sockaddr_in name;
	SOCKET s = bound_datagram(&name);

	NUMBER("send", sendto(s, "abc", 3, MSG_DONTROUTE, NAME(peer), sizeof(peer)));
	NUMBER("recv", recv(s, room, sizeof(room), 0));
	closesocket(s);
}

CASE(hundred)
{
	struct sockaddr_in name;
	SOCKET s = bound_datagram(&name);
	int good = 0;

	for (int i = 0; i < 100; i++) {
		char byte = (char)i, answer = 0;

		sendto(s, &byte, 1, 0, NAME(peer), sizeof(peer));
		good += recv(s, &answer, 1, 0) == 1 && answer == byte;
	}
	say("good=%d", good);
	closesocket(s);
}
