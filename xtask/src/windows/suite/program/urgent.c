/* Urgent data. */
#include "suite.h"

#define SUBJECT "urgent"

static void mark(SOCKET s)
{
	u_long is_there = 77;

	OKAY("mark", ioctlsocket(s, SIOCATMARK, &is_there));
	say("at=%lu", (unsigned long)is_there);
}

CASE(sent)
{
	SOCKET s = talk("take tell drain");

	NUMBER("send", send(s, "u", 1, MSG_OOB));
	heard(s);
	closesocket(s);
}

CASE(sent_by_wsasend)
{
	SOCKET s = talk("take tell drain");
	WSABUF part = { 1, "v" };
	DWORD count = 77;

	OKAY("send", WSASend(s, &part, 1, &count, MSG_OOB, NULL, NULL));
	say("count=%lu", (unsigned long)count);
	heard(s);
	closesocket(s);
}

CASE(sent_overlapped)
{
	SOCKET s = talk("take tell drain");
	WSABUF part = { 1, "w" };
	OVERLAPPED overlapped = with_event();

	OKAY("send", WSASend(s, &part, 1, NULL, MSG_OOB, &overlapped, NULL));
	finished("done", s, &overlapped);
	heard(s);
	closesocket(s);
}

CASE(sent_inline)
{
	SOCKET s = talk("inline recv:3 tell");

	NUMBER("send", send(s, "abc", 3, MSG_OOB));
	heard(s);
	closesocket(s);
}

CASE(received)
{
	SOCKET s = talk("urgent:u go drain");
	char bytes[4] = "";

	exceptional(s);
	NUMBER("urgent", recv(s, bytes, 4, MSG_OOB));
	say("byte=%c", bytes[0]);
	nonblocking(s);
	NUMBER("again", recv(s, bytes, 4, MSG_OOB));
	closesocket(s);
}

CASE(received_by_wsarecv)
{
	SOCKET s = talk("urgent:u go drain");
	char bytes[4] = "";
	WSABUF part = { 4, bytes };
	DWORD count = 77, flags = MSG_OOB;

	exceptional(s);
	OKAY("recv", WSARecv(s, &part, 1, &count, &flags, NULL, NULL));
	say("count=%lu flags=%lx byte=%c", (unsigned long)count, (unsigned long)flags, bytes[0]);
	closesocket(s);
}

CASE(received_overlapped)
{
	SOCKET s = talk("go urgent:u drain");
	char bytes[4] = "";
	WSABUF part = { 4, bytes };
	OVERLAPPED overlapped = with_event();
	DWORD flags = MSG_OOB;

	OKAY("recv", WSARecv(s, &part, 1, NULL, &flags, &overlapped, NULL));
	send(s, "g", 1, 0);
	finished("done", s, &overlapped);
	closesocket(s);
}

CASE(received_before_there_is_any)
{
	SOCKET s = talk("drain");
	char byte;

	nonblocking(s);
	NUMBER("urgent", recv(s, &byte, 1, MSG_OOB));
	closesocket(s);
}

CASE(peeked)
{
	SOCKET s = talk("urgent:u go drain");
	char byte = 0;

	exceptional(s);
	NUMBER("peek", recv(s, &byte, 1, MSG_OOB | MSG_PEEK));
	NUMBER("urgent", recv(s, &byte, 1, MSG_OOB));
	say("byte=%c", byte);
	closesocket(s);
}

CASE(ordinary_bytes_leave_it_out)
{
	SOCKET s = talk("send:2 urgent:u text:c fin drain");
	char bytes[8];

	exceptional(s);
	NUMBER("recv", recv(s, bytes, 2, MSG_WAITALL));
	NUMBER("rest", recv(s, bytes + 2, 6, MSG_WAITALL));
	say_bytes(bytes, 3);
	closesocket(s);
}

CASE(receiving_stops_before_it)
{
	SOCKET s = talk("send:2 urgent:u sleep:30 text:c go drain");
	char bytes[8];

	exceptional(s);
	Sleep(2 * QUIET);
	NUMBER("recv", recv(s, bytes, 8, 0));
	closesocket(s);
}

CASE(marks)
{
	SOCKET s = talk("send:2 urgent:u text:c go drain");
	char bytes[8];

	mark(s);
	exceptional(s);
	mark(s);
	NUMBER("recv", recv(s, bytes, 2, MSG_WAITALL));
	mark(s);
	closesocket(s);
}

CASE(mark_elsewhere)
{
	struct sockaddr_in name;
	SOCKET s = stream(), u = bound_datagram(&name), l = listening(&name);

	mark(s);
	mark(u);
	mark(l);
	closesocket(s);
	closesocket(u);
	closesocket(l);
}

CASE(inline_is_received)
{
	SOCKET s = talk("go send:2 urgent:c text:d fin drain");
	char bytes[8];

	OKAY("set", setsockopt(s, SOL_SOCKET, SO_OOBINLINE, (char *)number(1), sizeof(int)));
	send(s, "g", 1, 0);
	if (!exceptional(s))
		readable(s);
	Sleep(QUIET);
	NUMBER("recv", recv(s, bytes, 2, MSG_WAITALL));
	NUMBER("recv", recv(s, bytes + 2, 6, MSG_WAITALL));
	say_bytes(bytes, 4);
	closesocket(s);
}

CASE(inline_is_not_urgent)
{
	SOCKET s = talk("go urgent:a go drain");
	char byte;

	OKAY("set", setsockopt(s, SOL_SOCKET, SO_OOBINLINE, (char *)number(1), sizeof(int)));
	send(s, "g", 1, 0);
	readable(s);
	NUMBER("urgent", recv(s, &byte, 1, MSG_OOB));
	NUMBER("recv", recv(s, &byte, 1, 0));
	closesocket(s);
}

CASE(inline_before_the_connection)
{
	SOCKET s = stream();
	char bytes[4];

	OKAY("set", setsockopt(s, SOL_SOCKET, SO_OOBINLINE, (char *)number(1), sizeof(int)));
	OKAY("connect", connect(s, NAME(peer), sizeof(peer)));
	send(s, "urgent:a text:b fin drain\n", 26, 0);
	Sleep(QUIET);
	NUMBER("recv", recv(s, bytes, 2, MSG_WAITALL));
	say_bytes(bytes, 2);
	closesocket(s);
}

CASE(a_second_one)
{
	SOCKET s = talk("urgent:u sleep:50 urgent:v go drain");
	char byte = 0;

	exceptional(s);
	Sleep(3 * QUIET);
	NUMBER("urgent", recv(s, &byte, 1, MSG_OOB));
	say("byte=%c", byte);
	closesocket(s);
}

CASE(of_datagrams)
{
	struct sockaddr_in name;
	SOCKET s = bound_datagram(&name);
	char byte;

	NUMBER("sendto", sendto(s, "a", 1, MSG_OOB, NAME(peer), sizeof(peer)));
	nonblocking(s);
	NUMBER("recv", recv(s, &byte, 1, MSG_OOB));
	closesocket(s);
}

CASE(of_one_without_a_connection)
{
	SOCKET s = stream();
	char byte;

	nonblocking(s);
	NUMBER("send", send(s, "a", 1, MSG_OOB));
	NUMBER("recv", recv(s, &byte, 1, MSG_OOB));
	closesocket(s);
}
