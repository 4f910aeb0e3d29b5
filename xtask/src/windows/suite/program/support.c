/* What the cases share. */
#include "suite.h"

struct named_error {
	int number;
	const char *name;
};

#define ERROR_NAME(name) { name, #name }

static const struct named_error errors[] = {
	ERROR_NAME(WSAEINTR), ERROR_NAME(WSAEBADF), ERROR_NAME(WSAEACCES), ERROR_NAME(WSAEFAULT),
	ERROR_NAME(WSAEINVAL), ERROR_NAME(WSAEMFILE), ERROR_NAME(WSAEWOULDBLOCK), ERROR_NAME(WSAEINPROGRESS),
	ERROR_NAME(WSAEALREADY), ERROR_NAME(WSAENOTSOCK), ERROR_NAME(WSAEDESTADDRREQ), ERROR_NAME(WSAEMSGSIZE),
	ERROR_NAME(WSAEPROTOTYPE), ERROR_NAME(WSAENOPROTOOPT), ERROR_NAME(WSAEPROTONOSUPPORT),
	ERROR_NAME(WSAESOCKTNOSUPPORT), ERROR_NAME(WSAEOPNOTSUPP), ERROR_NAME(WSAEPFNOSUPPORT),
	ERROR_NAME(WSAEAFNOSUPPORT), ERROR_NAME(WSAEADDRINUSE), ERROR_NAME(WSAEADDRNOTAVAIL),
	ERROR_NAME(WSAENETDOWN), ERROR_NAME(WSAENETUNREACH), ERROR_NAME(WSAENETRESET), ERROR_NAME(WSAECONNABORTED),
	ERROR_NAME(WSAECONNRESET), ERROR_NAME(WSAENOBUFS), ERROR_NAME(WSAEISCONN), ERROR_NAME(WSAENOTCONN),
	ERROR_NAME(WSAESHUTDOWN), ERROR_NAME(WSAETIMEDOUT), ERROR_NAME(WSAECONNREFUSED), ERROR_NAME(WSAEHOSTDOWN),
	ERROR_NAME(WSAEHOSTUNREACH), ERROR_NAME(WSA_IO_PENDING), ERROR_NAME(WSA_IO_INCOMPLETE),
	ERROR_NAME(WSA_OPERATION_ABORTED), ERROR_NAME(WSA_INVALID_HANDLE), ERROR_NAME(WSA_INVALID_PARAMETER),
	ERROR_NAME(WSA_NOT_ENOUGH_MEMORY), ERROR_NAME(ERROR_NETNAME_DELETED), ERROR_NAME(ERROR_CONNECTION_REFUSED),
	ERROR_NAME(ERROR_CONNECTION_ABORTED), ERROR_NAME(ERROR_MORE_DATA), ERROR_NAME(ERROR_NOT_FOUND),
	ERROR_NAME(ERROR_PORT_UNREACHABLE), ERROR_NAME(ERROR_NOT_SUPPORTED), ERROR_NAME(ERROR_INVALID_FUNCTION),
	ERROR_NAME(ERROR_NOACCESS), ERROR_NAME(ERROR_PIPE_NOT_CONNECTED), ERROR_NAME(ERROR_NETWORK_UNREACHABLE),
	ERROR_NAME(ERROR_HOST_UNREACHABLE), ERROR_NAME(ERROR_GEN_FAILURE), ERROR_NAME(WAIT_TIMEOUT),
};

static const char *error_name(int error)
{
	static __thread char other[16];

	for (size_t i = 0; i < sizeof(errors) / sizeof(*errors); i++)
		if (errors[i].number == error)
			return errors[i].name;
	sprintf(other, "%d", error);
	return other;
}

void say_error(const char *what, int error)
{
	say("%s=%s", what, error ? error_name(error) : "0");
}

void say_number(const char *what, long long result)
{
	int error = WSAGetLastError();

	if (result == -1)
		say("%s=%s", what, error_name(error));
	else
		say("%s=%lld", what, result);
}

void say_success(const char *what, int is_good)
{
	int error = WSAGetLastError();

	say("%s=%s", what, is_good ? "ok" : error_name(error));
}

/* Ends the case: what it begins with does not work. */
static void give_up(const char *what)
{
	say("cannot-%s:%s", what, error_name(WSAGetLastError()));
	ExitThread(1);
}

static SOCKET made(int family, int kind)
{
	SOCKET s = socket(family, kind, 0);

	if (s == INVALID_SOCKET)
		give_up("make");
	return s;
}

SOCKET stream(void)
{
	return made(AF_INET, SOCK_STREAM);
}

SOCKET datagram(void)
{
	return made(AF_INET, SOCK_DGRAM);
}

SOCKET overlapped_stream(void)
{
	return WSASocketW(AF_INET, SOCK_STREAM, 0, NULL, 0, WSA_FLAG_OVERLAPPED);
}

static void send_script(SOCKET s, const char *script)
{
	char line[256];
	int length = snprintf(line, sizeof(line), "%s\n", script);

	if (send(s, line, length, 0) != length)
		give_up("ask");
}

SOCKET talk(const char *script)
{
	SOCKET s = stream();

	if (connect(s, NAME(peer), sizeof(peer)))
		give_up("connect");
	setsockopt(s, IPPROTO_TCP, TCP_NODELAY, (char *)number(1), sizeof(int));
	send_script(s, script);
	return s;
}

SOCKET talk6(const char *script)
{
	SOCKET s = made(AF_INET6, SOCK_STREAM);

	if (connect(s, NAME(peer6), sizeof(peer6)))
		give_up("connect");
	send_script(s, script);
	return s;
}

SOCKET listening(struct sockaddr_in *name)
{
	SOCKET s = stream();
	int length = sizeof(*name);

	*name = here;
	if (bind(s, NAME(*name), sizeof(*name)) || listen(s, 5) || getsockname(s, NAME(*name), &length))
		give_up("listen");
	return s;
}

SOCKET dialled(const struct sockaddr_in *name, const char *script)
{
	char line[256];

	snprintf(line, sizeof(line), "dial:%d %s", ntohs(name->sin_port), script);
	return talk(line);
}

SOCKET accepted(const char *script, SOCKET *control)
{
	struct sockaddr_in name;
	SOCKET s = listening(&name), one;

	*control = dialled(&name, script);
	one = accept(s, NULL, NULL);
	if (one == INVALID_SOCKET)
		give_up("accept");
	closesocket(s);
	return one;
}

SOCKET bound_datagram(struct sockaddr_in *name)
{
	SOCKET s = datagram();
	int length = sizeof(*name);

	*name = here;
	if (bind(s, NAME(*name), sizeof(*name)) || getsockname(s, NAME(*name), &length))
		give_up("bind");
	return s;
}

void ask(SOCKET s, const char *text)
{
	if (sendto(s, text, strlen(text), 0, NAME(peer), sizeof(peer)) != (int)strlen(text))
		give_up("send");
}

static int selected(SOCKET s, int is_exception)
{
	struct timeval time = { PATIENCE_MS / 1000, 0 };
	fd_set set, exception;

	FD_ZERO(&set);
	FD_ZERO(&exception);
	FD_SET(s, &set);
	FD_SET(s, &exception);
	return select(0, is_exception ? NULL : &set, NULL, is_exception ? &exception : NULL, &time) == 1;
}

int readable(SOCKET s)
{
	return selected(s, 0);
}

int exceptional(SOCKET s)
{
	return selected(s, 1);
}

void heard(SOCKET control)
{
	char line[128];
	int length = 0;

	while (length < (int)sizeof(line) - 1 && recv(control, line + length, 1, 0) == 1 && line[length] != '\n')
		length++;
	line[length] = 0;
	say("peer(%s)", line);
}

void say_bytes(const char *bytes, int count)
{
	for (int i = 0; i < count; i++)
		if (bytes[i] != 'a' + i % 26) {
			say("other-bytes-at-%d", i);
			return;
		}
	say("bytes-%d", count);
}

void nonblocking(SOCKET s)
{
	u_long one = 1;

	if (ioctlsocket(s, FIONBIO, &one))
		give_up("not-block");
}

int *number(int value)
{
	static __thread int place;

	place = value;
	return &place;
}

void say_name(const char *what, const void *name, int length, int port)
{
	const struct sockaddr_in *v4 = name;
	const struct sockaddr_in6 *v6 = name;
	char text[64] = "?";
	int found = ntohs(v4->sin_port);

	if (length >= (int)sizeof(*v4) && v4->sin_family == AF_INET)
		inet_ntop(AF_INET, (void *)&v4->sin_addr, text, sizeof(text));
	else if (length >= (int)sizeof(*v6) && v4->sin_family == AF_INET6)
		inet_ntop(AF_INET6, (void *)&v6->sin6_addr, text, sizeof(text));
	say("%s=%s/%s/%d", what, text, found == port ? "that-port" : found ? "a-port" : "no-port", length);
}

void *extension(SOCKET s, GUID id)
{
	void *found = NULL;
	DWORD size;

	if (WSAIoctl(s, SIO_GET_EXTENSION_FUNCTION_POINTER, &id, sizeof(id), &found, sizeof(found), &size, NULL, NULL))
		give_up("extend");
	return found;
}

OVERLAPPED with_event(void)
{
	OVERLAPPED overlapped = { 0 };

	overlapped.hEvent = WSACreateEvent();
	return overlapped;
}

void begin_receiving(SOCKET s, OVERLAPPED *overlapped, char *into, int length, DWORD wanted)
{
	WSABUF part = { length, into };
	static __thread DWORD flags;

	flags = wanted;
	OKAY("recv", WSARecv(s, &part, 1, NULL, &flags, overlapped, NULL));
}

void say_unless_begun(const char *what, int is_good)
{
	if (!is_good && WSAGetLastError() != WSA_IO_PENDING)
		say_success(what, 0);
}

void finished(const char *what, SOCKET s, OVERLAPPED *overlapped)
{
	DWORD count = 0, flags = 0;

	if (WaitForSingleObject(overlapped->hEvent, PATIENCE_MS)) {
		say("%s=pending", what);
		return;
	}
	WSASetLastError(0);
	if (WSAGetOverlappedResult(s, overlapped, &count, FALSE, &flags))
		say("%s=%lu/%lx", what, (unsigned long)count, (unsigned long)flags);
	else
		say("%s=%s/%lu/%lx", what, error_name(WSAGetLastError()), (unsigned long)count, (unsigned long)flags);
}

void taken(const char *what, HANDLE port, OVERLAPPED *expected, ULONG_PTR key)
{
	OVERLAPPED *found = NULL;
	ULONG_PTR found_key = 0;
	DWORD count = 0;
	BOOL is_good;
	int error;

	SetLastError(0);
	is_good = GetQueuedCompletionStatus(port, &count, &found_key, &found, PATIENCE_MS);
	error = GetLastError();
	say("%s=%s/%lu%s", what, is_good ? "ok" : error_name(error), (unsigned long)count,
	    found != expected ? "/other-request" : found && found_key != key ? "/other-key" : "");
}
