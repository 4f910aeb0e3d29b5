/* ConnectEx and DisconnectEx. */
#include "suite.h"

#define SUBJECT "extensions"

static char room[64];

static SOCKET bound_stream(void)
{
	struct sockaddr_in any = { .sin_family = AF_INET };
	SOCKET s = stream();

	bind(s, NAME(any), sizeof(any));
	return s;
}

static BOOL connect_ex(SOCKET s, struct sockaddr_in *to, const char *data, OVERLAPPED *overlapped)
{
	DWORD count = 0;

	return EXTENSION(LPFN_CONNECTEX, s, WSAID_CONNECTEX)(s, (void *)to, sizeof(*to), (void *)data,
							     data ? strlen(data) : 0, data ? &count : NULL, overlapped);
}

static void refusal(SOCKET s, OVERLAPPED *overlapped)
{
	DWORD count, flags;

	if (WaitForSingleObject(overlapped->hEvent, PATIENCE_MS))
		say("refused=pending");
	else
		TRUTH("refused", WSAGetOverlappedResult(s, overlapped, &count, FALSE, &flags));
}

CASE(connect)
{
	SOCKET s = bound_stream();
	OVERLAPPED overlapped = with_event();
	struct sockaddr_in name;
	int length = sizeof(name);

	say_unless_begun("connect", connect_ex(s, &peer, NULL, &overlapped));
	finished("done", s, &overlapped);
	OKAY("context", setsockopt(s, SOL_SOCKET, SO_UPDATE_CONNECT_CONTEXT, NULL, 0));
	OKAY("peer", getpeername(s, NAME(name), &length));
	say_name("is", &name, length, ntohs(peer.sin_port));
	send(s, "drain tell\n", 11, 0);
	OKAY("shutdown", shutdown(s, SD_SEND));
	heard(s);
	closesocket(s);
}

CASE(connect_with_data)
{
	SOCKET s = bound_stream();
	OVERLAPPED overlapped = with_event();

	say_unless_begun("connect", connect_ex(s, &peer, "send:4 drain\n", &overlapped));
	finished("done", s, &overlapped);
	NUMBER("recv", recv(s, room, 4, MSG_WAITALL));
	closesocket(s);
}

CASE(connect_refused)
{
	SOCKET s = bound_stream();
	OVERLAPPED overlapped = with_event();

	TRUTH("connect", connect_ex(s, &closed_port, NULL, &overlapped));
	refusal(s, &overlapped);
	say("status=%lx", (unsigned long)overlapped.Internal);
	closesocket(s);
}

CASE(connect_refused_by_a_port)
{
	SOCKET s = bound_stream();
	HANDLE port = CreateIoCompletionPort((HANDLE)s, NULL, 9, 0);
	OVERLAPPED overlapped = { 0 };

	TRUTH("connect", connect_ex(s, &closed_port, NULL, &overlapped));
	taken("refused", port, &overlapped, 9);
	closesocket(s);
	CloseHandle(port);
}

CASE(connect_unbound)
{
	SOCKET s = stream();
	OVERLAPPED overlapped = with_event();

	TRUTH("connect", connect_ex(s, &peer, NULL, &overlapped));
	closesocket(s);
}

CASE(connect_twice)
{
	SOCKET s = bound_stream();
	OVERLAPPED overlapped = with_event();

	say_unless_begun("connect", connect_ex(s, &peer, NULL, &overlapped));
	finished("done", s, &overlapped);
	TRUTH("again", connect_ex(s, &peer, NULL, &overlapped));
	closesocket(s);
}

CASE(connect_wrongly)
{
	struct sockaddr_in name;
	SOCKET s = bound_stream(), u = bound_datagram(&name), l = listening(&name);
	OVERLAPPED overlapped = with_event();

	TRUTH("datagram", connect_ex(u, &peer, NULL, &overlapped));
	TRUTH("listener", connect_ex(l, &peer, NULL, &overlapped));
	TRUTH("no-overlapped", connect_ex(s, &peer, NULL, NULL));
	closesocket(s);
	closesocket(u);
	closesocket(l);
}

CASE(connect_cancelled)
{
	struct sockaddr_in name = peer;
	SOCKET s = bound_stream();
	OVERLAPPED overlapped = with_event();

	name.sin_addr.s_addr = inet_addr("10.97.0.1");
	TRUTH("connect", connect_ex(s, &name, NULL, &overlapped));
	TRUTH("cancel", CancelIoEx((HANDLE)s, &overlapped));
	finished("done", s, &overlapped);
	closesocket(s);
}

CASE(connect_and_close)
{
	struct sockaddr_in name = peer;
	SOCKET s = bound_stream();
	OVERLAPPED overlapped = with_event();

	name.sin_addr.s_addr = inet_addr("10.97.0.1");
	TRUTH("connect", connect_ex(s, &name, NULL, &overlapped));
	OKAY("close", closesocket(s));
	say("told=%d", WaitForSingleObject(overlapped.hEvent, PATIENCE_MS) == WAIT_OBJECT_0);
	say("status=%lx", (unsigned long)overlapped.Internal);
}

static BOOL disconnect_ex(SOCKET s, OVERLAPPED *overlapped, DWORD flags)
{
	return EXTENSION(LPFN_DISCONNECTEX, s, WSAID_DISCONNECTEX)(s, overlapped, flags, 0);
}

CASE(disconnect)
{
	SOCKET control, s = accepted("drain tell", &control);

	TRUTH("disconnect", disconnect_ex(s, NULL, 0));
	heard(control);
	NUMBER("send", send(s, "a", 1, 0));
	closesocket(control);
	closesocket(s);
}

CASE(disconnect_overlapped)
{
	SOCKET control, s = accepted("drain tell", &control);
	OVERLAPPED overlapped = with_event();

	say_unless_begun("disconnect", disconnect_ex(s, &overlapped, 0));
	finished("done", s, &overlapped);
	heard(control);
	closesocket(control);
	closesocket(s);
}

CASE(disconnect_unconnected)
{
	SOCKET s = stream();

	TRUTH("disconnect", disconnect_ex(s, NULL, 0));
	closesocket(s);
}

CASE(disconnect_and_use_again)
{
	SOCKET control, s = accepted("drain tell", &control);

	say("disconnect=%d", disconnect_ex(s, NULL, TF_REUSE_SOCKET));
	heard(control);
	closesocket(control);
	closesocket(s);
}
