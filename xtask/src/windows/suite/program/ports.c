/* Completion ports. */
#include "suite.h"

#define SUBJECT "ports"

static char room[4096];

static HANDLE port_for(SOCKET s)
{
	HANDLE port = CreateIoCompletionPort((HANDLE)s, NULL, 7, 0);

	say("port=%d", port != NULL);
	return port;
}

static void receive(SOCKET s, OVERLAPPED *overlapped)
{
	WSABUF part = { 9, room };
	static __thread DWORD flags;

	flags = 0;
	OKAY("recv", WSARecv(s, &part, 1, NULL, &flags, overlapped, NULL));
}

/* Says that a port has nothing. */
static void quiet(HANDLE port)
{
	OVERLAPPED *found = (void *)1;
	ULONG_PTR key;
	DWORD count;

	SetLastError(0);
	TRUTH("quiet", GetQueuedCompletionStatus(port, &count, &key, &found, QUIET));
	say("null=%d", found == NULL);
}

CASE(receive_what_is_there)
{
	SOCKET s = talk("send:5 drain");
	HANDLE port = port_for(s);
	OVERLAPPED overlapped = { 0 };

	readable(s);
	receive(s, &overlapped);
	taken("taken", port, &overlapped, 7);
	quiet(port);
	closesocket(s);
	CloseHandle(port);
}

CASE(receive_what_comes)
{
	SOCKET s = talk("sleep:40 send:5 drain");
	HANDLE port = port_for(s);
	OVERLAPPED overlapped = { 0 };

	receive(s, &overlapped);
	taken("taken", port, &overlapped, 7);
	closesocket(s);
	CloseHandle(port);
}

CASE(receive_a_reset)
{
	SOCKET s = talk("sleep:40 reset");
	HANDLE port = port_for(s);
	OVERLAPPED overlapped = { 0 };

	receive(s, &overlapped);
	taken("taken", port, &overlapped, 7);
	closesocket(s);
	CloseHandle(port);
}

CASE(receive_the_end)
{
	SOCKET s = talk("sleep:40 close");
	HANDLE port = port_for(s);
	OVERLAPPED overlapped = { 0 };

	receive(s, &overlapped);
	taken("taken", port, &overlapped, 7);
	closesocket(s);
	CloseHandle(port);
}

CASE(send)
{
	SOCKET s = talk("drain");
	HANDLE port = port_for(s);
	OVERLAPPED overlapped = { 0 };
	WSABUF part = { 3, "abc" };

	OKAY("send", WSASend(s, &part, 1, NULL, 0, &overlapped, NULL));
	taken("taken", port, &overlapped, 7);
	closesocket(s);
	CloseHandle(port);
}

CASE(datagrams)
{
	struct sockaddr_in name, from;
	SOCKET s = bound_datagram(&name);
	HANDLE port = port_for(s);
	OVERLAPPED in = { 0 }, out = { 0 };
	WSABUF part = { 9, room }, sent = { 3, "abc" };
	int length = sizeof(from);
	DWORD flags = 0;

	OKAY("recv", WSARecvFrom(s, &part, 1, NULL, &flags, NAME(from), &length, &in, NULL));
	OKAY("send", WSASendTo(s, &sent, 1, NULL, 0, NAME(peer), sizeof(peer), &out, NULL));
	taken("sent", port, &out, 7);
	taken("received", port, &in, 7);
	say_name("from", &from, length, ntohs(peer.sin_port));
	closesocket(s);
	CloseHandle(port);
}

CASE(datagram_that_is_cut)
{
	struct sockaddr_in name, from;
	SOCKET s = bound_datagram(&name);
	HANDLE port = port_for(s);
	OVERLAPPED in = { 0 };
	WSABUF part = { 4, room };
	int length = sizeof(from);
	DWORD flags = 0;

	OKAY("recv", WSARecvFrom(s, &part, 1, NULL, &flags, NAME(from), &length, &in, NULL));
	ask(s, "size:9");
	taken("received", port, &in, 7);
	closesocket(s);
	CloseHandle(port);
}

CASE(port_before_the_connection)
{
	SOCKET s = stream();
	HANDLE port = port_for(s);
	OVERLAPPED overlapped = { 0 };

	OKAY("connect", connect(s, NAME(peer), sizeof(peer)));
	send(s, "send:5 drain\n", 13, 0);
	readable(s);
	receive(s, &overlapped);
	taken("taken", port, &overlapped, 7);
	closesocket(s);
	CloseHandle(port);
}

CASE(several_sockets)
{
	SOCKET s = talk("send:5 drain"), t = talk("drain");
	HANDLE port = port_for(s);
	OVERLAPPED first = { 0 }, second = { 0 };
	WSABUF part = { 3, "abc" };

	say("same=%d", CreateIoCompletionPort((HANDLE)t, port, 8, 0) == port);
	readable(s);
	receive(s, &first);
	taken("first", port, &first, 7);
	OKAY("send", WSASend(t, &part, 1, NULL, 0, &second, NULL));
	taken("second", port, &second, 8);
	closesocket(s);
	closesocket(t);
	CloseHandle(port);
}

CASE(port_for_one_that_has_one)
{
	SOCKET s = talk("drain");
	HANDLE port = port_for(s), other = CreateIoCompletionPort(INVALID_HANDLE_VALUE, NULL, 0, 0);

	SetLastError(0);
	TRUTH("again", CreateIoCompletionPort((HANDLE)s, other, 9, 0) != NULL);
	closesocket(s);
	CloseHandle(port);
	CloseHandle(other);
}

CASE(skip_on_success)
{
	SOCKET s = talk("send:5 go send:2 drain");
	HANDLE port = port_for(s);
	OVERLAPPED overlapped = { 0 };
	WSABUF part = { 9, room };
	DWORD flags = 0, count = 77;

	TRUTH("mode", SetFileCompletionNotificationModes((HANDLE)s, FILE_SKIP_COMPLETION_PORT_ON_SUCCESS));
	readable(s);
	OKAY("recv", WSARecv(s, &part, 1, &count, &flags, &overlapped, NULL));
	say("count=%lu", (unsigned long)count);
	quiet(port);
	memset(&overlapped, 0, sizeof(overlapped));
	receive(s, &overlapped);
	send(s, "g", 1, 0);
	taken("pending", port, &overlapped, 7);
	closesocket(s);
	CloseHandle(port);
}

CASE(skip_the_event)
{
	SOCKET s = talk("send:5 drain");
	HANDLE port = port_for(s);
	OVERLAPPED overlapped = with_event();

	TRUTH("mode", SetFileCompletionNotificationModes((HANDLE)s, FILE_SKIP_SET_EVENT_ON_HANDLE));
	readable(s);
	receive(s, &overlapped);
	taken("taken", port, &overlapped, 7);
	say("event=%d", WaitForSingleObject(overlapped.hEvent, 0) == WAIT_OBJECT_0);
	closesocket(s);
	CloseHandle(port);
}

CASE(event_with_its_low_bit)
{
	SOCKET s = talk("send:5 drain");
	HANDLE port = port_for(s), event = WSACreateEvent();
	OVERLAPPED overlapped = { 0 };

	/* Documented: such a request is not reported to the port. */
	overlapped.hEvent = (HANDLE)((ULONG_PTR)event | 1);
	readable(s);
	receive(s, &overlapped);
	say("event=%d", WaitForSingleObject(event, PATIENCE_MS) == WAIT_OBJECT_0);
	quiet(port);
	closesocket(s);
	CloseHandle(port);
}

CASE(cancelled)
{
	SOCKET s = talk("drain");
	HANDLE port = port_for(s);
	OVERLAPPED overlapped = { 0 };

	receive(s, &overlapped);
	TRUTH("cancel", CancelIoEx((HANDLE)s, &overlapped));
	taken("taken", port, &overlapped, 7);
	closesocket(s);
	CloseHandle(port);
}

CASE(closed)
{
	SOCKET s = talk("drain");
	HANDLE port = port_for(s);
	OVERLAPPED overlapped = { 0 };

	receive(s, &overlapped);
	OKAY("close", closesocket(s));
	taken("taken", port, &overlapped, 7);
	CloseHandle(port);
}

CASE(closed_with_datagrams)
{
	struct sockaddr_in name;
	SOCKET s = bound_datagram(&name);
	HANDLE port = port_for(s);
	OVERLAPPED overlapped = { 0 };

	receive(s, &overlapped);
	OKAY("close", closesocket(s));
	taken("taken", port, &overlapped, 7);
	CloseHandle(port);
}

CASE(many_at_once)
{
	struct sockaddr_in name;
	SOCKET s = bound_datagram(&name);
	HANDLE port = port_for(s);
	OVERLAPPED requests[4] = { 0 };
	OVERLAPPED_ENTRY entries[8];
	ULONG count = 0, sum = 0;

	for (int i = 0; i < 4; i++)
		receive(s, &requests[i]);
	ask(s, "size:1,2,3,4");
	while (sum < 4 && GetQueuedCompletionStatusEx(port, entries, 8, &count, PATIENCE_MS, FALSE))
		for (ULONG i = 0; i < count; i++)
			say("%d/%lu/%lx", (int)(entries[i].lpOverlapped - requests),
			    (unsigned long)entries[i].dwNumberOfBytesTransferred,
			    (unsigned long)entries[i].Internal),
				sum++;
	closesocket(s);
	CloseHandle(port);
}

CASE(ex_times_out)
{
	SOCKET s = talk("drain");
	HANDLE port = port_for(s);
	OVERLAPPED_ENTRY entries[8];
	ULONG count = 77;

	SetLastError(0);
	TRUTH("ex", GetQueuedCompletionStatusEx(port, entries, 8, &count, QUIET, FALSE));
	SetLastError(0);
	TRUTH("zero", GetQueuedCompletionStatusEx(port, entries, 8, &count, 0, FALSE));
	closesocket(s);
	CloseHandle(port);
}

static __thread int calls;

static void CALLBACK called(ULONG_PTR value)
{
	calls++;
}

CASE(ex_is_alerted)
{
	SOCKET s = talk("drain");
	HANDLE port = port_for(s);
	OVERLAPPED_ENTRY entries[8];
	ULONG count = 77;

	QueueUserAPC(called, GetCurrentThread(), 0);
	SetLastError(0);
	say("ex=%d", GetQueuedCompletionStatusEx(port, entries, 8, &count, PATIENCE_MS, TRUE) != 0);
	say("calls=%d", calls);
	closesocket(s);
	CloseHandle(port);
}

CASE(posted)
{
	SOCKET s = talk("drain");
	HANDLE port = port_for(s);
	OVERLAPPED overlapped;

	TRUTH("post", PostQueuedCompletionStatus(port, 33, 7, &overlapped));
	taken("taken", port, &overlapped, 7);
	closesocket(s);
	CloseHandle(port);
}

static DWORD CALLBACK poster(void *port)
{
	Sleep(QUIET);
	PostQueuedCompletionStatus(port, 33, 7, (void *)8);
	return 0;
}

CASE(posted_while_waiting)
{
	SOCKET s = talk("drain");
	HANDLE port = port_for(s);

	CloseHandle(CreateThread(NULL, 0, poster, port, 0, NULL));
	taken("taken", port, (void *)8, 7);
	closesocket(s);
	CloseHandle(port);
}

static DWORD CALLBACK worker(void *port)
{
	OVERLAPPED *found;
	ULONG_PTR key;
	DWORD count, sum = 0;

	while (GetQueuedCompletionStatus(port, &count, &key, &found, PATIENCE_MS) && found)
		sum += count;
	return sum;
}

CASE(two_workers)
{
	struct sockaddr_in name;
	SOCKET s = bound_datagram(&name);
	HANDLE port = port_for(s), workers[2];
	OVERLAPPED requests[6] = { 0 };
	DWORD sum = 0, one;

	for (int i = 0; i < 2; i++)
		workers[i] = CreateThread(NULL, 0, worker, port, 0, NULL);
	for (int i = 0; i < 6; i++)
		receive(s, &requests[i]);
	ask(s, "size:1,2,3,4,5,6");
	for (int round = 0; round < 200 && requests[5].Internal == 0x103; round++)
		Sleep(10);
	for (int i = 0; i < 2; i++)
		PostQueuedCompletionStatus(port, 0, 0, NULL);
	WaitForMultipleObjects(2, workers, TRUE, PATIENCE_MS);
	for (int i = 0; i < 2; i++)
		if (GetExitCodeThread(workers[i], &one))
			sum += one;
	say("sum=%lu", (unsigned long)sum);
	closesocket(s);
	CloseHandle(port);
}

static void CALLBACK routine(DWORD error, DWORD bytes, OVERLAPPED *overlapped, DWORD flags)
{
	calls++;
}

CASE(routine_with_a_port)
{
	SOCKET s = talk("send:5 drain");
	HANDLE port = port_for(s);
	OVERLAPPED overlapped = { 0 };
	WSABUF part = { 9, room };
	DWORD flags = 0;

	OKAY("recv", WSARecv(s, &part, 1, NULL, &flags, &overlapped, routine));
	closesocket(s);
	CloseHandle(port);
}
