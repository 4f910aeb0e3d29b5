/* Overlapped requests with events and completion routines; cancellation. */
#include "suite.h"

#define SUBJECT "overlapped"

static char room[70000];

/* Begins to receive; says how the call returned. */
static void receive(SOCKET s, OVERLAPPED *overlapped, int length, DWORD wanted)
{
	WSABUF part = { length, room };
	static __thread DWORD flags;

	flags = wanted;
	OKAY("recv", WSARecv(s, &part, 1, NULL, &flags, overlapped, NULL));
}

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

	receive(s, &overlapped, 9, 0);
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

	receive(s, &overlapped, 8, MSG_WAITALL);
	send(s, "g", 1, 0);
	finished("done", s, &overlapped);
	say_bytes(room, 8);
	closesocket(s);
}

CASE(peek_at_what_comes)
{
	SOCKET s = talk("go send:4 drain");
	OVERLAPPED overlapped = with_event();

	receive(s, &overlapped, 8, MSG_PEEK);
	send(s, "g", 1, 0);
	finished("done", s, &overlapped);
	NUMBER("recv", recv(s, room, 8, 0));
	closesocket(s);
}

CASE(receive_the_end)
{
	SOCKET s = talk("go close");
	OVERLAPPED overlapped = with_event();

	receive(s, &overlapped, 8, 0);
	send(s, "g", 1, 0);
	finished("done", s, &overlapped);
	closesocket(s);
}

CASE(receive_a_reset)
{
	SOCKET s = talk("go reset");
	OVERLAPPED overlapped = with_event();

	receive(s, &overlapped, 8, 0);
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
	receive(s, &overlapped, 0, 0);
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

	receive(s, &overlapped, 9, 0);
	send(s, "g", 1, 0);
	TRUTH("done", WSAGetOverlappedResult(s, &overlapped, &count, TRUE, &flags));
	say("count=%lu", (unsigned long)count);
	closesocket(s);
}

CASE(receive_while_a_call_receives)
{
	SOCKET s = talk("go send:3 sleep:40 text:de drain");
	OVERLAPPED overlapped = with_event();

	receive(s, &overlapped, 3, 0);
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
	receive(s, &overlapped, 9, 0);
	closesocket(s);
}

CASE(receive_without_a_connection)
{
	SOCKET s = stream();
	OVERLAPPED overlapped = with_event();

	receive(s, &overlapped, 9, 0);
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

	receive(s, &in, 9, 0);
	closesocket(s);
}

CASE(datagram_without_a_port)
{
	SOCKET s = datagram();
	OVERLAPPED in = with_event();

	connect(s, NAME(closed_port), sizeof(closed_port));
	receive(s, &in, 9, 0);
	send(s, "a", 1, 0);
	finished("received", s, &in);
	say("status=%lx", (unsigned long)in.Internal);
	closesocket(s);
}

/* Completion routines. */

static __thread int calls;
static __thread DWORD routine_error, routine_bytes, routine_flags;

static void CALLBACK routine(DWORD error, DWORD bytes, OVERLAPPED *overlapped, DWORD flags)
{
	calls++;
	routine_error = error;
	routine_bytes = bytes;
	routine_flags = flags;
}

static void told(const char *what)
{
	DWORD reason = SleepEx(PATIENCE_MS, TRUE);

	say("%s=%s/%d/%lu/%lu/%lx", what, reason == WAIT_IO_COMPLETION ? "called" : "not", calls,
	    (unsigned long)routine_error, (unsigned long)routine_bytes, (unsigned long)routine_flags);
}

static int receive_by_routine(SOCKET s, OVERLAPPED *overlapped, int length)
{
	WSABUF part = { length, room };
	static __thread DWORD flags;

	calls = 0;
	flags = 0;
	return WSARecv(s, &part, 1, NULL, &flags, overlapped, routine);
}

CASE(routine_for_what_is_there)
{
	SOCKET s = talk("send:5 drain");
	OVERLAPPED overlapped = { 0 };

	readable(s);
	OKAY("recv", receive_by_routine(s, &overlapped, 9));
	say("calls=%d", calls);
	told("routine");
	closesocket(s);
}

CASE(routine_for_what_comes)
{
	SOCKET s = talk("sleep:40 send:5 drain");
	OVERLAPPED overlapped = { 0 };

	OKAY("recv", receive_by_routine(s, &overlapped, 9));
	told("routine");
	closesocket(s);
}

CASE(routine_for_a_send)
{
	SOCKET s = talk("drain");
	OVERLAPPED overlapped = { 0 };
	WSABUF part = { 3, "abc" };

	calls = 0;
	OKAY("send", WSASend(s, &part, 1, NULL, 0, &overlapped, routine));
	told("routine");
	closesocket(s);
}

CASE(routine_for_datagrams)
{
	struct sockaddr_in name, from;
	SOCKET s = bound_datagram(&name);
	OVERLAPPED overlapped = { 0 };
	WSABUF part = { 9, room };
	int length = sizeof(from);
	DWORD flags = 0;

	calls = 0;
	OKAY("recv", WSARecvFrom(s, &part, 1, NULL, &flags, NAME(from), &length, &overlapped, routine));
	ask(s, "size:4");
	told("routine");
	say_name("from", &from, length, ntohs(peer.sin_port));
	closesocket(s);
}

CASE(routine_for_a_reset)
{
	SOCKET s = talk("sleep:40 reset");
	OVERLAPPED overlapped = { 0 };

	OKAY("recv", receive_by_routine(s, &overlapped, 9));
	told("routine");
	closesocket(s);
}

CASE(routine_and_waiting_for_events)
{
	SOCKET s = talk("sleep:40 send:5 drain");
	OVERLAPPED overlapped = { 0 };
	WSAEVENT event = WSACreateEvent();
	DWORD reason;

	OKAY("recv", receive_by_routine(s, &overlapped, 9));
	reason = WSAWaitForMultipleEvents(1, &event, FALSE, PATIENCE_MS, TRUE);
	say("reason=%lx calls=%d", (unsigned long)reason, calls);
	closesocket(s);
	WSACloseEvent(event);
}

CASE(routine_is_not_called_without_an_alertable_wait)
{
	SOCKET s = talk("send:5 drain");
	OVERLAPPED overlapped = { 0 };

	readable(s);
	OKAY("recv", receive_by_routine(s, &overlapped, 9));
	Sleep(QUIET);
	say("calls=%d", calls);
	told("routine");
	closesocket(s);
}

CASE(routine_for_a_cancelled_one)
{
	SOCKET s = talk("drain");
	OVERLAPPED overlapped = { 0 };

	OKAY("recv", receive_by_routine(s, &overlapped, 9));
	TRUTH("cancel", CancelIo((HANDLE)s));
	told("routine");
	closesocket(s);
}

CASE(routine_for_one_that_is_closed)
{
	SOCKET s = talk("drain");
	OVERLAPPED overlapped = { 0 };

	OKAY("recv", receive_by_routine(s, &overlapped, 9));
	OKAY("close", closesocket(s));
	told("routine");
}

/* Cancellation. */

CASE(cancel)
{
	SOCKET s = talk("go send:5 drain");
	OVERLAPPED overlapped = with_event();

	receive(s, &overlapped, 9, 0);
	TRUTH("cancel", CancelIo((HANDLE)s));
	finished("done", s, &overlapped);
	say("status=%lx", (unsigned long)overlapped.Internal);
	send(s, "g", 1, 0);
	NUMBER("recv", recv(s, room, 9, 0));
	closesocket(s);
}

CASE(cancel_one_of_two)
{
	SOCKET s = talk("go send:5 drain");
	OVERLAPPED first = with_event(), second = with_event();

	receive(s, &first, 9, 0);
	receive(s, &second, 9, 0);
	TRUTH("cancel", CancelIoEx((HANDLE)s, &first));
	finished("first", s, &first);
	send(s, "g", 1, 0);
	finished("second", s, &second);
	TRUTH("again", CancelIoEx((HANDLE)s, &first));
	closesocket(s);
}

CASE(cancel_all)
{
	SOCKET s = talk("go send:5 drain");
	OVERLAPPED first = with_event(), second = with_event();

	receive(s, &first, 9, 0);
	receive(s, &second, 9, 0);
	TRUTH("cancel", CancelIoEx((HANDLE)s, NULL));
	finished("first", s, &first);
	finished("second", s, &second);
	closesocket(s);
}

CASE(cancel_nothing)
{
	struct sockaddr_in name;
	SOCKET s = talk("drain"), u = bound_datagram(&name), f = stream();

	TRUTH("cancel", CancelIo((HANDLE)s));
	TRUTH("ex", CancelIoEx((HANDLE)s, NULL));
	TRUTH("datagram", CancelIoEx((HANDLE)u, NULL));
	TRUTH("fresh", CancelIoEx((HANDLE)f, NULL));
	closesocket(s);
	closesocket(u);
	closesocket(f);
}

static DWORD CALLBACK canceller(void *s)
{
	say("unheard");
	TRUTH("unheard", CancelIo((HANDLE)s));
	return 0;
}

CASE(cancel_of_another_thread)
{
	SOCKET s = talk("go send:5 drain");
	OVERLAPPED overlapped = with_event();
	HANDLE thread;

	receive(s, &overlapped, 9, 0);
	thread = CreateThread(NULL, 0, canceller, (void *)s, 0, NULL);
	WaitForSingleObject(thread, PATIENCE_MS);
	say("waits=%d", WaitForSingleObject(overlapped.hEvent, QUIET) == WAIT_TIMEOUT);
	send(s, "g", 1, 0);
	finished("done", s, &overlapped);
	closesocket(s);
}

CASE(cancel_a_datagram)
{
	struct sockaddr_in name;
	SOCKET s = bound_datagram(&name);
	OVERLAPPED overlapped = with_event();

	receive(s, &overlapped, 9, 0);
	TRUTH("cancel", CancelIoEx((HANDLE)s, &overlapped));
	finished("done", s, &overlapped);
	ask(s, "abc");
	NUMBER("recv", recv(s, room, 9, 0));
	closesocket(s);
}

CASE(close_with_a_request)
{
	SOCKET s = talk("drain");
	OVERLAPPED overlapped = with_event();

	receive(s, &overlapped, 9, 0);
	OKAY("close", closesocket(s));
	say("told=%d", WaitForSingleObject(overlapped.hEvent, PATIENCE_MS) == WAIT_OBJECT_0);
	say("status=%lx", (unsigned long)overlapped.Internal);
}

CASE(close_with_a_request_for_datagrams)
{
	struct sockaddr_in name;
	SOCKET s = bound_datagram(&name);
	OVERLAPPED overlapped = with_event();

	receive(s, &overlapped, 9, 0);
	OKAY("close", closesocket(s));
	say("told=%d", WaitForSingleObject(overlapped.hEvent, PATIENCE_MS) == WAIT_OBJECT_0);
	say("status=%lx", (unsigned long)overlapped.Internal);
}

CASE(shutdown_with_a_request)
{
	SOCKET s = talk("drain");
	OVERLAPPED overlapped = with_event();

	receive(s, &overlapped, 9, 0);
	OKAY("shutdown", shutdown(s, SD_RECEIVE));
	say("waits=%d", WaitForSingleObject(overlapped.hEvent, QUIET) == WAIT_TIMEOUT);
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
	receive(s, &overlapped, 9, 0);
	finished("done", s, &overlapped);
	closesocket(s);
}
