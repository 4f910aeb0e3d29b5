/* Overlapped requests with events. */
#include "suite.h"

#define SUBJECT "overlapped"

static char room[70000];

CASE(receive_what_is_there)
{
	SOCKET s = talk("send:5 drain");
	OVERLAPPED overlapped = with_event();
	WSABUF part = { 9, room };
	DWORD count = 77, flags = 0;

	readable(s);
	OKAY("recv", WSARecv(s, &part, 1, &count, &flags, &overlapped, NULL));
	say("count=%lu flags=%lx", (unsigned long)count, (unsigned long)flags);
	finished("done", s, &overlapped);
	say("status=%lx bytes=%lu", (unsigned long)overlapped.Internal, (unsigned long)overlapped.InternalHigh);
	closesocket(s);
}

CASE(receive_what_comes)
{
	SOCKET s = talk("go send:5 drain");
	OVERLAPPED overlapped = with_event();
	DWORD count = 77, flags;

	begin_receiving(s, &overlapped, room, 9, 0);
	say("status=%lx", (unsigned long)overlapped.Internal);
	TRUTH("result", WSAGetOverlappedResult(s, &overlapped, &count, FALSE, &flags));
	send(s, "g", 1, 0);
	finished("done", s, &overlapped);
	closesocket(s);
}

CASE(receive_into_parts)
{
	SOCKET s = talk("go send:9 drain");
	OVERLAPPED overlapped = with_event();
	WSABUF parts[] = { { 2, room }, { 0, NULL }, { 20, room + 2 } };
	DWORD flags = 0;

	OKAY("recv", WSARecv(s, parts, 3, NULL, &flags, &overlapped, NULL));
	send(s, "g", 1, 0);
	finished("done", s, &overlapped);
	say_bytes(room, 9);
	closesocket(s);
}

CASE(receive_all)
{
	SOCKET s = talk("go send:4 sleep:40 text:efgh drain");
	OVERLAPPED overlapped = with_event();

	begin_receiving(s, &overlapped, room, 8, MSG_WAITALL);
	send(s, "g", 1, 0);
	finished("done", s, &overlapped);
	say_bytes(room, 8);
	closesocket(s);
}

CASE(peek_at_what_comes)
{
	SOCKET s = talk("go send:4 drain");
	OVERLAPPED overlapped = with_event();

	begin_receiving(s, &overlapped, room, 8, MSG_PEEK);
	send(s, "g", 1, 0);
	finished("done", s, &overlapped);
	NUMBER("recv", recv(s, room, 8, 0));
	closesocket(s);
}

CASE(receive_the_end)
{
	SOCKET s = talk("go close");
	OVERLAPPED overlapped = with_event();

	begin_receiving(s, &overlapped, room, 8, 0);
	send(s, "g", 1, 0);
	finished("done", s, &overlapped);
	closesocket(s);
}

CASE(receive_a_reset)
{
	SOCKET s = talk("go reset");
	OVERLAPPED overlapped = with_event();

	begin_receiving(s, &overlapped, room, 8, 0);
	send(s, "g", 1, 0);
	finished("done", s, &overlapped);
	say("status=%lx", (unsigned long)overlapped.Internal);
	closesocket(s);
}

CASE(receive_nothing)
{
	SOCKET s = talk("go send:4 drain");
	OVERLAPPED overlapped = with_event();

	/* Programs are told so when there is something, without memory for it. */
	begin_receiving(s, &overlapped, room, 0, 0);
	say("waits=%d", WaitForSingleObject(overlapped.hEvent, QUIET) == WAIT_TIMEOUT);
	send(s, "g", 1, 0);
	finished("done", s, &overlapped);
	NUMBER("recv", recv(s, room, 8, 0));
	closesocket(s);
}

CASE(two_receive_in_order)
{
	SOCKET s = talk("go send:3 sleep:40 text:de drain");
	OVERLAPPED first = with_event(), second = with_event();
	WSABUF parts[] = { { 3, room }, { 3, room + 3 } };
	DWORD flags = 0;

	OKAY("first", WSARecv(s, parts, 1, NULL, &flags, &first, NULL));
	flags = 0;
	OKAY("second", WSARecv(s, parts + 1, 1, NULL, &flags, &second, NULL));
	send(s, "g", 1, 0);
	finished("first", s, &first);
	finished("second", s, &second);
	say_bytes(room, 5);
	closesocket(s);
}

CASE(receive_without_an_event)
{
	SOCKET s = talk("go send:5 drain");
	OVERLAPPED overlapped = { 0 };
	DWORD count = 0, flags = 0;

	begin_receiving(s, &overlapped, room, 9, 0);
	send(s, "g", 1, 0);
	TRUTH("done", WSAGetOverlappedResult(s, &overlapped, &count, TRUE, &flags));
	say("count=%lu", (unsigned long)count);
	closesocket(s);
}

CASE(receive_while_a_call_receives)
{
	SOCKET s = talk("go send:3 sleep:40 text:de drain");
	OVERLAPPED overlapped = with_event();

	begin_receiving(s, &overlapped, room, 3, 0);
	nonblocking(s);
	NUMBER("recv", recv(s, room + 3, 3, 0));
	send(s, "g", 1, 0);
	finished("done", s, &overlapped);
	closesocket(s);
}

CASE(receive_after_shutdown)
{
	SOCKET s = talk("drain");
	OVERLAPPED overlapped = with_event();

	shutdown(s, SD_RECEIVE);
	begin_receiving(s, &overlapped, room, 9, 0);
	closesocket(s);
}

CASE(receive_without_a_connection)
{
	SOCKET s = stream();
	OVERLAPPED overlapped = with_event();

	begin_receiving(s, &overlapped, room, 9, 0);
	closesocket(s);
}

CASE(send)
{
	SOCKET s = talk("recv:6 tell");
	OVERLAPPED overlapped = with_event();
	WSABUF parts[] = { { 3, "abc" }, { 3, "def" } };
	DWORD count = 77;

	OKAY("send", WSASend(s, parts, 2, &count, 0, &overlapped, NULL));
	say("count=%lu", (unsigned long)count);
	finished("done", s, &overlapped);
	heard(s);
	closesocket(s);
}

CASE(send_much)
{
	SOCKET s = talk("recv:4194304 tell");
	OVERLAPPED overlapped = with_event();
	char *bytes = calloc(1, 4 << 20);
	WSABUF part = { 4 << 20, bytes };

	if (WSASend(s, &part, 1, NULL, 0, &overlapped, NULL) && WSAGetLastError() != WSA_IO_PENDING)
		say("fails");
	finished("done", s, &overlapped);
	heard(s);
	closesocket(s);
	free(bytes);
}

CASE(send_much_without_blocking)
{
	SOCKET s = talk("sleep:50 recv:4194304 tell");
	OVERLAPPED overlapped = with_event();
	char *bytes = calloc(1, 4 << 20);
	WSABUF part = { 4 << 20, bytes };

	nonblocking(s);
	if (WSASend(s, &part, 1, NULL, 0, &overlapped, NULL) && WSAGetLastError() != WSA_IO_PENDING)
		say("fails");
	finished("done", s, &overlapped);
	readable(s);
	heard(s);
	closesocket(s);
	free(bytes);
}

CASE(send_after_shutdown)
{
	SOCKET s = talk("drain");
	OVERLAPPED overlapped = with_event();
	WSABUF part = { 1, "a" };

	shutdown(s, SD_SEND);
	OKAY("send", WSASend(s, &part, 1, NULL, 0, &overlapped, NULL));
	closesocket(s);
}

CASE(send_without_a_connection)
{
	SOCKET s = stream(), u = datagram();
	OVERLAPPED overlapped = with_event();
	WSABUF part = { 1, "a" };

	OKAY("stream", WSASend(s, &part, 1, NULL, 0, &overlapped, NULL));
	OKAY("datagram", WSASend(u, &part, 1, NULL, 0, &overlapped, NULL));
	closesocket(s);
	closesocket(u);
}

CASE(send_nothing)
{
	SOCKET s = talk("drain");
	OVERLAPPED overlapped = with_event();
	WSABUF part = { 0, NULL };

	OKAY("send", WSASend(s, &part, 1, NULL, 0, &overlapped, NULL));
	finished("done", s, &overlapped);
	closesocket(s);
}

CASE(datagrams)
{
	struct sockaddr_in name, from = { 0 };
	SOCKET s = bound_datagram(&name);
	OVERLAPPED out = with_event(), in = with_event();
	WSABUF sent = { 3, "abc" }, part = { 9, room };
	int length = sizeof(from);
	DWORD flags = 0;

	OKAY("recv", WSARecvFrom(s, &part, 1, NULL, &flags, NAME(from), &length, &in, NULL));
	OKAY("send", WSASendTo(s, &sent, 1, NULL, 0, NAME(peer), sizeof(peer), &out, NULL));
	finished("sent", s, &out);
	finished("received", s, &in);
	say_name("from", &from, length, ntohs(peer.sin_port));
	closesocket(s);
}

CASE(datagram_that_is_cut)
{
	struct sockaddr_in name, from = { 0 };
	SOCKET s = bound_datagram(&name);
	OVERLAPPED in = with_event();
	WSABUF part = { 4, room };
	int length = sizeof(from);
	DWORD flags = 0;

	OKAY("recv", WSARecvFrom(s, &part, 1, NULL, &flags, NAME(from), &length, &in, NULL));
	ask(s, "size:9");
	finished("received", s, &in);
	say("status=%lx", (unsigned long)in.Internal);
	closesocket(s);
}

CASE(datagram_to_one_not_bound)
{
	SOCKET s = datagram();
	OVERLAPPED out = with_event();
	WSABUF sent = { 3, "abc" };

	OKAY("send", WSASendTo(s, &sent, 1, NULL, 0, NAME(peer), sizeof(peer), &out, NULL));
	finished("sent", s, &out);
	NUMBER("recv", recv(s, room, 9, 0));
	closesocket(s);
}

CASE(datagrams_received_before_bind)
{
	SOCKET s = datagram();
	OVERLAPPED in = with_event();

	begin_receiving(s, &in, room, 9, 0);
	closesocket(s);
}

CASE(datagram_without_a_port)
{
	SOCKET s = datagram();
	OVERLAPPED in = with_event();

	connect(s, NAME(closed_port), sizeof(closed_port));
	begin_receiving(s, &in, room, 9, 0);
	send(s, "a", 1, 0);
	finished("received", s, &in);
	say("status=%lx", (unsigned long)in.Internal);
	closesocket(s);
}

CASE(result_of_a_bad_argument)
{
	SOCKET s = talk("drain");
	OVERLAPPED overlapped = { 0 };
	DWORD count, flags;

	TRUTH("socket", WSAGetOverlappedResult(12345, &overlapped, &count, FALSE, &flags));
	TRUTH("null", WSAGetOverlappedResult(s, NULL, &count, FALSE, &flags));
	TRUTH("count", WSAGetOverlappedResult(s, &overlapped, NULL, FALSE, &flags));
	TRUTH("flags", WSAGetOverlappedResult(s, &overlapped, &count, FALSE, NULL));
	closesocket(s);
}

CASE(socket_without_overlapped)
{
	SOCKET s = WSASocketW(AF_INET, SOCK_STREAM, 0, NULL, 0, 0);
	OVERLAPPED overlapped = with_event();

	OKAY("connect", connect(s, NAME(peer), sizeof(peer)));
	send(s, "send:5 drain\n", 13, 0);
	readable(s);
	begin_receiving(s, &overlapped, room, 9, 0);
	finished("done", s, &overlapped);
	closesocket(s);
}
