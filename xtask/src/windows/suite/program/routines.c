/* Overlapped requests with completion routines. */
#include "suite.h"

#define SUBJECT "overlapped"

static char room[9];

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
