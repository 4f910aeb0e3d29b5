/* The cancellation of overlapped requests, by a call and by the end of their sockets. */
#include "suite.h"

#define SUBJECT "overlapped"

static char room[9];

CASE(cancel)
{
	SOCKET s = talk("go send:5 drain");
	OVERLAPPED overlapped = with_event();

	begin_receiving(s, &overlapped, room, 9, 0);
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

	begin_receiving(s, &first, room, 9, 0);
	begin_receiving(s, &second, room, 9, 0);
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

	begin_receiving(s, &first, room, 9, 0);
	begin_receiving(s, &second, room, 9, 0);
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

	begin_receiving(s, &overlapped, room, 9, 0);
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

	begin_receiving(s, &overlapped, room, 9, 0);
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

	begin_receiving(s, &overlapped, room, 9, 0);
	OKAY("close", closesocket(s));
	say("told=%d", WaitForSingleObject(overlapped.hEvent, PATIENCE_MS) == WAIT_OBJECT_0);
	say("status=%lx", (unsigned long)overlapped.Internal);
}

CASE(close_with_a_request_for_datagrams)
{
	struct sockaddr_in name;
	SOCKET s = bound_datagram(&name);
	OVERLAPPED overlapped = with_event();

	begin_receiving(s, &overlapped, room, 9, 0);
	OKAY("close", closesocket(s));
	say("told=%d", WaitForSingleObject(overlapped.hEvent, PATIENCE_MS) == WAIT_OBJECT_0);
	say("status=%lx", (unsigned long)overlapped.Internal);
}

CASE(shutdown_with_a_request)
{
	SOCKET s = talk("drain");
	OVERLAPPED overlapped = with_event();

	begin_receiving(s, &overlapped, room, 9, 0);
	OKAY("shutdown", shutdown(s, SD_RECEIVE));
	say("waits=%d", WaitForSingleObject(overlapped.hEvent, QUIET) == WAIT_TIMEOUT);
	closesocket(s);
}
