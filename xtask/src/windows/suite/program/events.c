/* WSAEventSelect, WSAEnumNetworkEvents, WSAAsyncSelect. */
#include "suite.h"

#define SUBJECT "events"

#define ALL (FD_READ | FD_WRITE | FD_OOB | FD_ACCEPT | FD_CONNECT | FD_CLOSE)

static const struct {
	int bit, place;
	const char *name;
} bits[] = { { FD_READ, FD_READ_BIT, "read" },	    { FD_WRITE, FD_WRITE_BIT, "write" },
	     { FD_OOB, FD_OOB_BIT, "urgent" },	    { FD_ACCEPT, FD_ACCEPT_BIT, "accept" },
	     { FD_CONNECT, FD_CONNECT_BIT, "connect" }, { FD_CLOSE, FD_CLOSE_BIT, "close" } };

static char room[4096];

/* Waits for an event, and says what has happened. */
static void happened(const char *what, SOCKET s, WSAEVENT event, int time_ms)
{
	WSANETWORKEVENTS events = { 0 };

	if (WSAWaitForMultipleEvents(1, &event, FALSE, time_ms, FALSE) != WSA_WAIT_EVENT_0) {
		say("%s=quiet", what);
		return;
	}
	OKAY(what, WSAEnumNetworkEvents(s, event, &events));
	for (size_t i = 0; i < sizeof(bits) / sizeof(*bits); i++)
		if (events.lNetworkEvents & bits[i].bit)
			say_error(bits[i].name, events.iErrorCode[bits[i].place]);
}

static WSAEVENT selected(SOCKET s, long wanted)
{
	WSAEVENT event = WSACreateEvent();

	OKAY("select", WSAEventSelect(s, event, wanted));
	return event;
}

static void quiet(SOCKET s, WSAEVENT event)
{
	happened("then", s, event, QUIET);
}

CASE(connect)
{
	SOCKET s = stream();
	WSAEVENT event = selected(s, FD_CONNECT | FD_CLOSE);

	OKAY("connect", connect(s, NAME(peer), sizeof(peer)));
	happened("first", s, event, PATIENCE_MS);
	quiet(s, event);
	closesocket(s);
}

CASE(connect_and_write)
{
	SOCKET s = stream();
	WSAEVENT event = selected(s, ALL);

	OKAY("connect", connect(s, NAME(peer), sizeof(peer)));
	WSAWaitForMultipleEvents(1, &event, FALSE, PATIENCE_MS, FALSE);
	Sleep(QUIET);
	happened("first", s, event, PATIENCE_MS);
	closesocket(s);
}

CASE(refused)
{
	SOCKET s = stream();
	WSAEVENT event = selected(s, FD_CONNECT | FD_READ | FD_CLOSE);

	OKAY("connect", connect(s, NAME(closed_port), sizeof(closed_port)));
	happened("first", s, event, PATIENCE_MS);
	quiet(s, event);
	closesocket(s);
}

CASE(of_a_connection)
{
	SOCKET s = talk("drain");
	WSAEVENT event = selected(s, ALL);

	happened("first", s, event, PATIENCE_MS);
	quiet(s, event);
	closesocket(s);
}

CASE(read)
{
	SOCKET s = talk("go send:5 drain");
	WSAEVENT event = selected(s, FD_READ);

	quiet(s, event);
	send(s, "g", 1, 0);
	happened("first", s, event, PATIENCE_MS);
	quiet(s, event);
	NUMBER("recv", recv(s, room, 2, 0));
	happened("again", s, event, PATIENCE_MS);
	NUMBER("recv", recv(s, room, 9, 0));
	quiet(s, event);
	closesocket(s);
}

CASE(read_and_peek)
{
	SOCKET s = talk("send:5 drain");
	WSAEVENT event = selected(s, FD_READ);

	happened("first", s, event, PATIENCE_MS);
	NUMBER("peek", recv(s, room, 2, MSG_PEEK));
	happened("again", s, event, QUIET);
	closesocket(s);
}

CASE(read_what_was_there)
{
	SOCKET s = talk("send:5 drain");
	WSAEVENT event;

	readable(s);
	event = selected(s, FD_READ);
	happened("first", s, event, PATIENCE_MS);
	closesocket(s);
}

CASE(selected_anew)
{
	SOCKET s = talk("send:5 drain");
	WSAEVENT event = selected(s, FD_READ), other;

	happened("first", s, event, PATIENCE_MS);
	other = selected(s, FD_READ);
	happened("other", s, other, PATIENCE_MS);
	quiet(s, event);
	closesocket(s);
}

CASE(close)
{
	SOCKET s = talk("go close");
	WSAEVENT event = selected(s, FD_READ | FD_CLOSE);

	send(s, "g", 1, 0);
	happened("first", s, event, PATIENCE_MS);
	quiet(s, event);
	closesocket(s);
}

CASE(close_by_a_reset)
{
	SOCKET s = talk("go reset");
	WSAEVENT event = selected(s, FD_READ | FD_CLOSE);

	send(s, "g", 1, 0);
	happened("first", s, event, PATIENCE_MS);
	quiet(s, event);
	closesocket(s);
}

CASE(close_after_data)
{
	SOCKET s = talk("go send:3 close");
	WSAEVENT event = selected(s, FD_READ | FD_CLOSE);

	send(s, "g", 1, 0);
	WSAWaitForMultipleEvents(1, &event, FALSE, PATIENCE_MS, FALSE);
	Sleep(QUIET);
	happened("first", s, event, PATIENCE_MS);
	NUMBER("recv", recv(s, room, 9, 0));
	happened("close", s, event, QUIET);
	closesocket(s);
}

CASE(write_after_it_was_full)
{
	SOCKET s = talk("go sleep:100 drain");
	WSAEVENT event = selected(s, FD_WRITE);
	int rounds = 0;

	happened("first", s, event, PATIENCE_MS);
	send(s, "g", 1, 0);
	while (send(s, room, sizeof(room), 0) > 0 && ++rounds < 10000)
		;
	happened("room", s, event, PATIENCE_MS);
	closesocket(s);
}

CASE(urgent)
{
	SOCKET s = talk("go urgent:u go drain");
	WSAEVENT event = selected(s, FD_OOB);

	send(s, "g", 1, 0);
	happened("first", s, event, PATIENCE_MS);
	NUMBER("recv", recv(s, room, 1, MSG_OOB));
	quiet(s, event);
	closesocket(s);
}

CASE(urgent_inline)
{
	SOCKET s = talk("go urgent:u go drain");
	WSAEVENT event;

	setsockopt(s, SOL_SOCKET, SO_OOBINLINE, (char *)number(1), sizeof(int));
	event = selected(s, FD_OOB | FD_READ);
	send(s, "g", 1, 0);
	happened("first", s, event, PATIENCE_MS);
	closesocket(s);
}

CASE(accept)
{
	struct sockaddr_in name;
	SOCKET s = listening(&name), control, one;
	WSAEVENT event = selected(s, FD_ACCEPT | FD_CLOSE);

	quiet(s, event);
	control = dialled(&name, "go drain");
	happened("first", s, event, PATIENCE_MS);
	quiet(s, event);
	OKAY("accept", one = accept(s, NULL, NULL));
	quiet(s, event);
	closesocket(one);
	closesocket(control);
	closesocket(s);
}

CASE(accepted_inherits)
{
	struct sockaddr_in name;
	SOCKET s = listening(&name), control, one;
	WSAEVENT event = selected(s, FD_ACCEPT | FD_READ | FD_CLOSE);

	control = dialled(&name, "go send:5 drain");
	happened("accept", s, event, PATIENCE_MS);
	OKAY("accept", one = accept(s, NULL, NULL));
	send(control, "g", 1, 0);
	happened("read", one, event, PATIENCE_MS);
	closesocket(one);
	closesocket(control);
	closesocket(s);
}

CASE(two_to_be_accepted)
{
	struct sockaddr_in name;
	SOCKET s = listening(&name), first, second;
	WSAEVENT event = selected(s, FD_ACCEPT);

	first = dialled(&name, "drain");
	happened("first", s, event, PATIENCE_MS);
	second = dialled(&name, "tell drain");
	heard(second);
	OKAY("accept", accept(s, NULL, NULL));
	happened("second", s, event, PATIENCE_MS);
	closesocket(first);
	closesocket(second);
	closesocket(s);
}

CASE(datagrams)
{
	struct sockaddr_in name;
	SOCKET s = bound_datagram(&name);
	WSAEVENT event = selected(s, FD_READ | FD_WRITE);

	happened("write", s, event, PATIENCE_MS);
	ask(s, "size:3");
	happened("read", s, event, PATIENCE_MS);
	NUMBER("recv", recv(s, room, 9, 0));
	quiet(s, event);
	closesocket(s);
}

CASE(several_datagrams)
{
	struct sockaddr_in name;
	SOCKET s = bound_datagram(&name);
	WSAEVENT event = selected(s, FD_READ);

	ask(s, "size:3,4");
	Sleep(QUIET);
	happened("read", s, event, PATIENCE_MS);
	NUMBER("recv", recv(s, room, 9, 0));
	happened("again", s, event, PATIENCE_MS);
	NUMBER("recv", recv(s, room, 9, 0));
	quiet(s, event);
	closesocket(s);
}

CASE(datagram_without_a_port)
{
	SOCKET s = datagram();
	WSAEVENT event;

	connect(s, NAME(closed_port), sizeof(closed_port));
	event = selected(s, FD_READ);
	send(s, "a", 1, 0);
	happened("read", s, event, PATIENCE_MS);
	NUMBER("recv", recv(s, room, 9, 0));
	closesocket(s);
}

CASE(no_longer_selected)
{
	SOCKET s = talk("go send:5 drain");
	WSAEVENT event = selected(s, FD_READ);

	OKAY("none", WSAEventSelect(s, NULL, 0));
	send(s, "g", 1, 0);
	happened("read", s, event, QUIET);
	NUMBER("recv", recv(s, room, 9, 0) == 5 ? 5 : -1);
	closesocket(s);
}

CASE(without_an_event)
{
	SOCKET s = talk("send:5 drain");
	WSANETWORKEVENTS events = { 0 };
	WSAEVENT event;

	readable(s);
	event = selected(s, FD_READ);
	WSAWaitForMultipleEvents(1, &event, FALSE, PATIENCE_MS, FALSE);
	OKAY("enum", WSAEnumNetworkEvents(s, NULL, &events));
	say("events=%lx", (unsigned long)events.lNetworkEvents);
	say("set=%d", WaitForSingleObject(event, 0) == WAIT_OBJECT_0);
	OKAY("again", WSAEnumNetworkEvents(s, event, &events));
	say("events=%lx", (unsigned long)events.lNetworkEvents);
	say("set=%d", WaitForSingleObject(event, 0) == WAIT_OBJECT_0);
	closesocket(s);
}

CASE(bad_arguments)
{
	SOCKET s = talk("drain");
	WSAEVENT event = WSACreateEvent();
	WSANETWORKEVENTS events;

	OKAY("socket", WSAEventSelect(12345, event, FD_READ));
	OKAY("event", WSAEventSelect(s, NULL, FD_READ));
	OKAY("enum-socket", WSAEnumNetworkEvents(12345, event, &events));
	OKAY("enum-null", WSAEnumNetworkEvents(s, event, NULL));
	OKAY("window", WSAAsyncSelect(s, (HWND)12345, WM_USER, FD_READ));
	OKAY("window-socket", WSAAsyncSelect(12345, NULL, WM_USER, FD_READ));
	closesocket(s);
}

/* Windows. */

static HWND window(void)
{
	return CreateWindowA("STATIC", "suite", 0, 0, 0, 0, 0, HWND_MESSAGE, NULL, NULL, NULL);
}

static void posted(const char *what, SOCKET s, int time_ms)
{
	MSG message;

	for (DWORD begin = GetTickCount(); (int)(GetTickCount() - begin) <= time_ms; Sleep(5))
		if (PeekMessageA(&message, NULL, WM_USER, WM_USER, PM_REMOVE)) {
			const char *name = "other";

			for (size_t i = 0; i < sizeof(bits) / sizeof(*bits); i++)
				if (WSAGETSELECTEVENT(message.lParam) == bits[i].bit)
					name = bits[i].name;
			say("%s:%s", what, message.wParam == s ? "" : "other-socket");
			say_error(name, WSAGETSELECTERROR(message.lParam));
			return;
		}
	say("%s=quiet", what);
}

CASE(window_connect)
{
	SOCKET s = stream();
	HWND w = window();

	OKAY("select", WSAAsyncSelect(s, w, WM_USER, FD_CONNECT));
	OKAY("connect", connect(s, NAME(peer), sizeof(peer)));
	posted("first", s, PATIENCE_MS);
	posted("then", s, QUIET);
	closesocket(s);
	DestroyWindow(w);
}

CASE(window_refused)
{
	SOCKET s = stream();
	HWND w = window();

	OKAY("select", WSAAsyncSelect(s, w, WM_USER, FD_CONNECT));
	OKAY("connect", connect(s, NAME(closed_port), sizeof(closed_port)));
	posted("first", s, PATIENCE_MS);
	closesocket(s);
	DestroyWindow(w);
}

CASE(window_read_and_close)
{
	SOCKET s = talk("go send:5 go close");
	HWND w = window();

	OKAY("select", WSAAsyncSelect(s, w, WM_USER, FD_READ | FD_CLOSE));
	send(s, "g", 1, 0);
	posted("first", s, PATIENCE_MS);
	NUMBER("recv", recv(s, room, 2, 0));
	posted("again", s, PATIENCE_MS);
	NUMBER("recv", recv(s, room, 9, 0));
	posted("then", s, QUIET);
	send(s, "g", 1, 0);
	posted("close", s, PATIENCE_MS);
	closesocket(s);
	DestroyWindow(w);
}

CASE(window_accept)
{
	struct sockaddr_in name;
	SOCKET s = listening(&name), control, one;
	HWND w = window();

	OKAY("select", WSAAsyncSelect(s, w, WM_USER, FD_ACCEPT | FD_READ));
	control = dialled(&name, "go send:3 drain");
	posted("accept", s, PATIENCE_MS);
	OKAY("accept", one = accept(s, NULL, NULL));
	send(control, "g", 1, 0);
	posted("read", one, PATIENCE_MS);
	closesocket(one);
	closesocket(control);
	closesocket(s);
	DestroyWindow(w);
}

CASE(window_write)
{
	SOCKET s = talk("drain");
	HWND w = window();

	OKAY("select", WSAAsyncSelect(s, w, WM_USER, FD_WRITE));
	posted("first", s, PATIENCE_MS);
	posted("then", s, QUIET);
	closesocket(s);
	DestroyWindow(w);
}

CASE(window_no_longer)
{
	SOCKET s = talk("go send:5 drain");
	HWND w = window();

	OKAY("select", WSAAsyncSelect(s, w, WM_USER, FD_READ));
	OKAY("none", WSAAsyncSelect(s, w, 0, 0));
	send(s, "g", 1, 0);
	posted("read", s, QUIET);
	/* It still does not block. */
	readable(s);
	NUMBER("recv", recv(s, room, 9, 0));
	NUMBER("recv", recv(s, room, 9, 0));
	closesocket(s);
	DestroyWindow(w);
}

CASE(window_datagrams)
{
	struct sockaddr_in name;
	SOCKET s = bound_datagram(&name);
	HWND w = window();

	OKAY("select", WSAAsyncSelect(s, w, WM_USER, FD_READ));
	ask(s, "size:3");
	posted("read", s, PATIENCE_MS);
	NUMBER("recv", recv(s, room, 9, 0));
	posted("then", s, QUIET);
	closesocket(s);
	DestroyWindow(w);
}
