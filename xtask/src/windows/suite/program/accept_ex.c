/* AcceptEx. */
#include "suite.h"

#define SUBJECT "extensions"
#define PLACE (sizeof(struct sockaddr_in) + 16)

static char room[8192];

static BOOL accept_ex(SOCKET listener, SOCKET s, DWORD data, OVERLAPPED *overlapped)
{
	DWORD count = 0;

	return EXTENSION(LPFN_ACCEPTEX, listener, WSAID_ACCEPTEX)(listener, s, room, data, PLACE, PLACE, &count,
								  overlapped);
}

static void names(DWORD data, int port)
{
	struct sockaddr *local = NULL, *remote = NULL;
	int local_length = 0, remote_length = 0;
	SOCKET s = stream();

	EXTENSION(LPFN_GETACCEPTEXSOCKADDRS, s, WSAID_GETACCEPTEXSOCKADDRS)
	(room, data, PLACE, PLACE, &local, &local_length, &remote, &remote_length);
	say_name("local", local, local_length, port);
	say_name("remote", remote, remote_length, 0);
	closesocket(s);
}

CASE(accept)
{
	struct sockaddr_in name;
	SOCKET l = listening(&name), s = stream(), control;
	OVERLAPPED overlapped = with_event();
	int length = sizeof(name), port = ntohs(name.sin_port);

	TRUTH("accept", accept_ex(l, s, 0, &overlapped));
	control = dialled(&name, "send:5 drain tell");
	finished("done", l, &overlapped);
	names(0, port);
	OKAY("context", setsockopt(s, SOL_SOCKET, SO_UPDATE_ACCEPT_CONTEXT, (char *)&l, sizeof(l)));
	OKAY("peer", getpeername(s, NAME(name), &length));
	NUMBER("recv", recv(s, room, 5, MSG_WAITALL));
	OKAY("shutdown", shutdown(s, SD_SEND));
	closesocket(s);
	heard(control);
	closesocket(control);
	closesocket(l);
}

CASE(accept_with_data)
{
	struct sockaddr_in name;
	SOCKET l = listening(&name), s = stream(), control;
	OVERLAPPED overlapped = with_event();

	TRUTH("accept", accept_ex(l, s, 100, &overlapped));
	control = dialled(&name, "sleep:40 send:5 drain");
	finished("done", l, &overlapped);
	say_bytes(room, 5);
	names(100, ntohs(name.sin_port));
	closesocket(s);
	closesocket(control);
	closesocket(l);
}

CASE(accept_of_one_that_is_there)
{
	struct sockaddr_in name;
	SOCKET l = listening(&name), s = stream(), control = dialled(&name, "drain");
	OVERLAPPED overlapped = with_event();

	readable(l);
	accept_ex(l, s, 0, &overlapped);
	finished("done", l, &overlapped);
	closesocket(s);
	closesocket(control);
	closesocket(l);
}

CASE(accept_and_the_end)
{
	struct sockaddr_in name;
	SOCKET l = listening(&name), s = stream(), control;
	OVERLAPPED overlapped = with_event();

	TRUTH("accept", accept_ex(l, s, 100, &overlapped));
	control = dialled(&name, "sleep:40 fin drain");
	finished("done", l, &overlapped);
	closesocket(s);
	closesocket(control);
	closesocket(l);
}

CASE(accept_cancelled)
{
	struct sockaddr_in name;
	SOCKET l = listening(&name), s = stream(), control;
	OVERLAPPED overlapped = with_event();

	TRUTH("accept", accept_ex(l, s, 0, &overlapped));
	TRUTH("cancel", CancelIoEx((HANDLE)l, &overlapped));
	finished("done", l, &overlapped);
	control = dialled(&name, "drain");
	OKAY("accept", accept(l, NULL, NULL));
	closesocket(s);
	closesocket(control);
	closesocket(l);
}

CASE(accept_and_the_listener_is_closed)
{
	struct sockaddr_in name;
	SOCKET l = listening(&name), s = stream();
	OVERLAPPED overlapped = with_event();

	TRUTH("accept", accept_ex(l, s, 0, &overlapped));
	OKAY("close", closesocket(l));
	say("told=%d", WaitForSingleObject(overlapped.hEvent, PATIENCE_MS) == WAIT_OBJECT_0);
	say("status=%lx", (unsigned long)overlapped.Internal);
	closesocket(s);
}

/* Whether a request has ended, and not well. (With which status is not documented.) */
static void given_up(OVERLAPPED *overlapped)
{
	int has_ended = WaitForSingleObject(overlapped->hEvent, PATIENCE_MS) == WAIT_OBJECT_0;

	say("told=%d failed=%d", has_ended, (LONG)overlapped->Internal < 0);
}

CASE(accept_and_the_socket_is_closed)
{
	struct sockaddr_in name;
	SOCKET l = listening(&name), s = stream(), t = stream();
	OVERLAPPED first = with_event(), second = with_event();

	TRUTH("first", accept_ex(l, s, 0, &first));
	TRUTH("second", accept_ex(l, t, 0, &second));
	closesocket(t);
	given_up(&second);
	say("first=%lx", (unsigned long)first.Internal);
	closesocket(s);
	closesocket(l);
}

/* A peer that connects and says nothing is got rid of. */
CASE(accept_and_the_silent_one_is_closed)
{
	struct sockaddr_in name;
	SOCKET l = listening(&name), s = stream(), control;
	OVERLAPPED overlapped = with_event();
	DWORD seconds = -1;
	int length = sizeof(seconds);

	TRUTH("accept", accept_ex(l, s, 100, &overlapped));
	control = dialled(&name, "drain tell");
	for (int i = 0; i < 200 && seconds == (DWORD)-1; i++) {
		Sleep(10);
		getsockopt(s, SOL_SOCKET, SO_CONNECT_TIME, (char *)&seconds, &length);
	}
	say("connected=%d", seconds != (DWORD)-1);
	closesocket(s);
	given_up(&overlapped);
	heard(control);
	closesocket(control);
	closesocket(l);
}

CASE(accept_before_the_context)
{
	struct sockaddr_in name;
	SOCKET l = listening(&name), s = stream(), control;
	OVERLAPPED overlapped = with_event();
	int length = sizeof(name);

	accept_ex(l, s, 0, &overlapped);
	control = dialled(&name, "send:3 drain");
	finished("done", l, &overlapped);
	NUMBER("recv", recv(s, room, 3, MSG_WAITALL));
	NUMBER("send", send(s, "abc", 3, 0));
	OKAY("name", getsockname(s, NAME(name), &length));
	closesocket(s);
	closesocket(control);
	closesocket(l);
}

CASE(accept_wrongly)
{
	struct sockaddr_in name;
	SOCKET l = listening(&name), s = stream(), c = talk("drain"), u = datagram();
	OVERLAPPED overlapped = with_event();
	DWORD count;
	LPFN_ACCEPTEX function = EXTENSION(LPFN_ACCEPTEX, l, WSAID_ACCEPTEX);

	TRUTH("not-listening", function(c, s, room, 0, PLACE, PLACE, &count, &overlapped));
	TRUTH("connected", function(l, c, room, 0, PLACE, PLACE, &count, &overlapped));
	TRUTH("datagram", function(u, s, room, 0, PLACE, PLACE, &count, &overlapped));
	TRUTH("no-socket", function(l, 12345, room, 0, PLACE, PLACE, &count, &overlapped));
	TRUTH("no-listener", function(12345, s, room, 0, PLACE, PLACE, &count, &overlapped));
	TRUTH("no-overlapped", function(l, s, room, 0, PLACE, PLACE, &count, NULL));
	TRUTH("little", function(l, s, room, 0, 8, PLACE, &count, &overlapped));
	closesocket(s);
	closesocket(c);
	closesocket(u);
	closesocket(l);
}

CASE(accept_by_a_port)
{
	struct sockaddr_in name;
	SOCKET l = listening(&name), s = stream(), control;
	HANDLE port = CreateIoCompletionPort((HANDLE)l, NULL, 9, 0);
	OVERLAPPED overlapped = { 0 };

	TRUTH("accept", accept_ex(l, s, 0, &overlapped));
	control = dialled(&name, "drain");
	taken("taken", port, &overlapped, 9);
	closesocket(s);
	closesocket(control);
	closesocket(l);
	CloseHandle(port);
}

/* A listener that comes from another process may be the kernel's, and so is what it accepts. */
CASE(accept_by_a_duplicate)
{
	struct sockaddr_in name;
	SOCKET l = listening(&name), d, s = stream(), control;
	OVERLAPPED overlapped = with_event();
	WSAPROTOCOL_INFOA info;

	OKAY("duplicate", WSADuplicateSocketA(l, GetCurrentProcessId(), &info));
	d = WSASocketA(FROM_PROTOCOL_INFO, FROM_PROTOCOL_INFO, FROM_PROTOCOL_INFO, &info, 0, WSA_FLAG_OVERLAPPED);
	TRUTH("accept", accept_ex(d, s, 0, &overlapped));
	control = dialled(&name, "send:3 drain");
	finished("accepted", d, &overlapped);
	OKAY("context", setsockopt(s, SOL_SOCKET, SO_UPDATE_ACCEPT_CONTEXT, (char *)&d, sizeof(d)));
	NUMBER("recv", recv(s, room, 3, MSG_WAITALL));
	closesocket(control);
	closesocket(s);
	closesocket(d);
	closesocket(l);
}
