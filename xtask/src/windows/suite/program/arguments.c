/* Arguments that are wrong. */
#include "suite.h"

#define SUBJECT "arguments"

static char room[64];

/* Where nothing may be written or read. */
#define NOWHERE ((void *)16)

CASE(no_socket)
{
	WSABUF part = { 4, room };
	DWORD count, flags = 0;
	struct sockaddr_in name;
	int length = sizeof(name);

	NUMBER("send", send(12345, "a", 1, 0));
	NUMBER("recv", recv(12345, room, 1, 0));
	NUMBER("sendto", sendto(12345, "a", 1, 0, NAME(peer), sizeof(peer)));
	NUMBER("recvfrom", recvfrom(12345, room, 1, 0, NAME(name), &length));
	OKAY("wsasend", WSASend(12345, &part, 1, &count, 0, NULL, NULL));
	OKAY("wsarecv", WSARecv(12345, &part, 1, &count, &flags, NULL, NULL));
	OKAY("wsasendto", WSASendTo(12345, &part, 1, &count, 0, NAME(peer), sizeof(peer), NULL, NULL));
	OKAY("wsarecvfrom", WSARecvFrom(12345, &part, 1, &count, &flags, NAME(name), &length, NULL, NULL));
	OKAY("connect", WSAConnect(12345, NAME(peer), sizeof(peer), NULL, NULL, NULL, NULL));
	OKAY("accept", WSAAccept(12345, NULL, NULL, NULL, 0));
	OKAY("invalid", closesocket(INVALID_SOCKET));
}

CASE(a_handle_that_is_no_socket)
{
	HANDLE event = CreateEventA(NULL, 0, 0, NULL);
	u_long value = 0;

	NUMBER("send", send((SOCKET)event, "a", 1, 0));
	NUMBER("recv", recv((SOCKET)event, room, 1, 0));
	OKAY("close", closesocket((SOCKET)event));
	OKAY("ioctl", ioctlsocket((SOCKET)event, FIONBIO, &value));
	TRUTH("still", SetEvent(event));
	CloseHandle(event);
}

CASE(null_buffers)
{
	SOCKET s = talk("send:5 drain");

	readable(s);
	NUMBER("send", send(s, NULL, 3, 0));
	NUMBER("recv", recv(s, NULL, 3, 0));
	NUMBER("recv-none", recv(s, NULL, 0, 0));
	NUMBER("still", recv(s, room, 5, 0));
	closesocket(s);
}

CASE(null_buffers_of_datagrams)
{
	struct sockaddr_in name;
	SOCKET s = bound_datagram(&name);

	NUMBER("send", sendto(s, NULL, 3, 0, NAME(peer), sizeof(peer)));
	ask(s, "size:5,6");
	readable(s);
	NUMBER("recv", recv(s, NULL, 3, 0));
	NUMBER("next", recv(s, room, 9, 0));
	closesocket(s);
}

CASE(negative_lengths)
{
	struct sockaddr_in name;
	SOCKET s = talk("drain"), u = bound_datagram(&name);

	NUMBER("send", send(s, "a", -1, 0));
	nonblocking(s);
	NUMBER("recv", recv(s, room, -1, 0));
	NUMBER("sendto", sendto(u, "a", -1, 0, NAME(peer), sizeof(peer)));
	nonblocking(u);
	NUMBER("recvfrom", recvfrom(u, room, -1, 0, NULL, NULL));
	closesocket(s);
	closesocket(u);
}

CASE(bad_pointer_of_send)
{
	SOCKET s = talk("recv:3 tell");

	NUMBER("send", send(s, NOWHERE, 3, 0));
	NUMBER("still", send(s, "abc", 3, 0));
	heard(s);
	closesocket(s);
}

CASE(bad_pointer_of_recv)
{
	SOCKET s = talk("send:5 drain");

	readable(s);
	NUMBER("recv", recv(s, NOWHERE, 3, 0));
	NUMBER("still", recv(s, room, 5, 0));
	closesocket(s);
}

CASE(bad_pointer_of_datagrams)
{
	struct sockaddr_in name;
	SOCKET s = bound_datagram(&name);

	NUMBER("send", sendto(s, NOWHERE, 3, 0, NAME(peer), sizeof(peer)));
	ask(s, "size:5,6");
	readable(s);
	NUMBER("recv", recv(s, NOWHERE, 3, 0));
	NUMBER("still", recv(s, room, 9, 0));
	closesocket(s);
}

CASE(bad_pointer_to_a_name)
{
	struct sockaddr_in name;
	SOCKET s = stream(), u = bound_datagram(&name), c = talk("drain");
	int length = sizeof(name);

	OKAY("connect", connect(s, NOWHERE, sizeof(name)));
	NUMBER("send", sendto(u, "a", 1, 0, NOWHERE, sizeof(name)));
	OKAY("name", getsockname(c, NOWHERE, &length));
	OKAY("peer", getpeername(c, NOWHERE, &length));
	closesocket(s);
	closesocket(u);
	closesocket(c);
}

CASE(bad_pointer_to_an_option)
{
	SOCKET s = talk("drain");
	int length = 4;

	OKAY("set", setsockopt(s, SOL_SOCKET, SO_KEEPALIVE, NOWHERE, 4));
	OKAY("error", getsockopt(s, SOL_SOCKET, SO_ERROR, NOWHERE, &length));
	closesocket(s);
}

CASE(bad_pointer_of_an_ioctl)
{
	SOCKET s = talk("drain");

	OKAY("bytes", ioctlsocket(s, FIONREAD, NOWHERE));
	closesocket(s);
}

CASE(bad_pointer_of_wsasend)
{
	SOCKET s = talk("drain");
	WSABUF part = { 3, NOWHERE };
	DWORD count;

	OKAY("bytes", WSASend(s, &part, 1, &count, 0, NULL, NULL));
	closesocket(s);
}

CASE(bad_pointer_of_wsarecv)
{
	SOCKET s = talk("send:5 drain");
	WSABUF part = { 3, NOWHERE };
	DWORD count, flags = 0;

	readable(s);
	OKAY("bytes", WSARecv(s, &part, 1, &count, &flags, NULL, NULL));
	NUMBER("still", recv(s, room, 5, 0));
	closesocket(s);
}

CASE(bad_pointer_of_an_overlapped_receive)
{
	SOCKET s = talk("go send:5 drain");
	WSABUF part = { 3, NOWHERE };
	OVERLAPPED overlapped = with_event();
	DWORD flags = 0;

	say("begun=%d", WSARecv(s, &part, 1, NULL, &flags, &overlapped, NULL));
	send(s, "g", 1, 0);
	readable(s);
	NUMBER("still", send(s, "a", 1, 0));
	closesocket(s);
}

CASE(bad_pointer_of_an_overlapped_send)
{
	SOCKET s = talk("drain");
	WSABUF part = { 3, NOWHERE };
	OVERLAPPED overlapped = with_event();

	OKAY("send", WSASend(s, &part, 1, NULL, 0, &overlapped, NULL));
	closesocket(s);
}

CASE(no_count)
{
	SOCKET s = talk("recv:3 send:5 drain");
	WSABUF part = { 3, room };
	DWORD flags = 0;

	/* Documented: only with an overlapped request may it be missing. */
	OKAY("send", WSASend(s, &part, 1, NULL, 0, NULL, NULL));
	setsockopt(s, SOL_SOCKET, SO_RCVTIMEO, (char *)number(300), sizeof(int));
	OKAY("recv", WSARecv(s, &part, 1, NULL, &flags, NULL, NULL));
	closesocket(s);
}

CASE(no_flags)
{
	SOCKET s = talk("send:5 drain");
	WSABUF part = { 3, room };
	DWORD count;

	readable(s);
	OKAY("recv", WSARecv(s, &part, 1, &count, NULL, NULL, NULL));
	NUMBER("still", recv(s, room, 5, 0));
	closesocket(s);
}

CASE(no_buffers)
{
	struct sockaddr_in name;
	SOCKET s = talk("send:5 drain"), u = bound_datagram(&name);
	WSABUF part = { 3, room };
	DWORD count = 77, flags = 0;

	readable(s);
	OKAY("send", WSASend(s, &part, 0, &count, 0, NULL, NULL));
	OKAY("send-null", WSASend(s, NULL, 1, &count, 0, NULL, NULL));
	OKAY("recv", WSARecv(s, &part, 0, &count, &flags, NULL, NULL));
	OKAY("recv-null", WSARecv(s, NULL, 1, &count, &flags, NULL, NULL));
	OKAY("sendto", WSASendTo(u, &part, 0, &count, 0, NAME(peer), sizeof(peer), NULL, NULL));
	NUMBER("still", recv(s, room, 5, 0));
	closesocket(s);
	closesocket(u);
}

CASE(null_and_none)
{
	OKAY("events", WSAEventSelect(INVALID_SOCKET, NULL, 0));
	OKAY("poll", WSAPoll(NULL, 0, 0));
	OKAY("select", select(0, NULL, NULL, NULL, NULL));
}

CASE(flags_that_there_are_not)
{
	SOCKET s = talk("send:5 recv:1 tell drain");

	readable(s);
	NUMBER("send", send(s, "a", 1, 0x4000));
	NUMBER("recv", recv(s, room, 2, 0x4000));
	closesocket(s);
}

CASE(send_message_wrongly)
{
	struct sockaddr_in name;
	SOCKET s = bound_datagram(&name);
	LPFN_WSARECVMSG function = EXTENSION(LPFN_WSARECVMSG, s, WSAID_WSARECVMSG);
	DWORD count;

	OKAY("null", function(s, NULL, &count, NULL, NULL));
	OKAY("socket", function(12345, NULL, &count, NULL, NULL));
	closesocket(s);
}

CASE(without_a_last_error)
{
	SOCKET s = talk("send:5 drain");

	/* What succeeds leaves no error behind. */
	WSASetLastError(77);
	recv(s, room, 5, MSG_WAITALL);
	say("recv=%d", WSAGetLastError());
	WSASetLastError(77);
	send(s, "a", 1, 0);
	say("send=%d", WSAGetLastError());
	WSASetLastError(77);
	closesocket(s);
	say("close=%d", WSAGetLastError());
}
