/*
 * A program of overlapped requests, as servers and event loops have them:
 *
 *     overlapped server ADDRESS PORT [any|dual]
 *         echoes UDP datagrams and TCP streams by a completion port: AcceptEx, WSARecv, WSASend,
 *         WSARecvFrom, WSASendTo, until a datagram says `end`; with `any`, bound to any address;
 *         with `dual`, by sockets of IPv6 for both families
 *     overlapped client ADDRESS PORT COUNT
 *         ConnectEx, COUNT messages of 64 bytes each by a port, by events and by completion
 *         routines; TransmitFile; refusal, cancellation, DisconnectEx; messages of UDP
 *
 * It says `ready`, or what it has measured, or what is wrong. It knows nothing of Tickwire.
 */
#include "common.h"
#include <mswsock.h>

#define MESSAGE 64
#define CHUNK 65536
#define FILE_SIZE (3 << 20)
#define PLACE (sizeof(struct sockaddr_in6) + 16)

static struct sockaddr_in there;
static HANDLE port;
static LPFN_ACCEPTEX accept_ex;
static LPFN_CONNECTEX connect_ex;
static LPFN_DISCONNECTEX disconnect_ex;
static LPFN_GETACCEPTEXSOCKADDRS accept_names;
static LPFN_WSARECVMSG receive_message;

static void *function(SOCKET s, GUID id)
{
	void *found = NULL;
	DWORD size;

	if (WSAIoctl(s, SIO_GET_EXTENSION_FUNCTION_POINTER, &id, sizeof(id), &found, sizeof(found), &size, NULL, NULL))
		fail("an extension function");
	return found;
}

static int family = AF_INET;

static SOCKET made(int kind)
{
	SOCKET s = WSASocketW(family, kind, 0, NULL, 0, WSA_FLAG_OVERLAPPED);

	if (s == INVALID_SOCKET)
		fail("WSASocket");
	return s;
}

/* A request of the server. */
struct request {
	OVERLAPPED overlapped;
	enum { ACCEPTED, RECEIVED, SENT, DATAGRAM, DATAGRAM_SENT } kind;
	SOCKET s;
	struct sockaddr_in6 from;
	int from_len;
	DWORD flags;
	char bytes[CHUNK];
};

static SOCKET listener;

static int pending(int result)
{
	return result && WSAGetLastError() != WSA_IO_PENDING;
}

static void accept_next(struct request *r)
{
	DWORD count;

	memset(&r->overlapped, 0, sizeof(r->overlapped));
	r->kind = ACCEPTED;
	r->s = made(SOCK_STREAM);
	if (!accept_ex(listener, r->s, r->bytes, 0, PLACE, PLACE, &count, &r->overlapped) &&
	    WSAGetLastError() != WSA_IO_PENDING)
		fail("AcceptEx");
}

static void receive(struct request *r)
{
	WSABUF buffer = { sizeof(r->bytes), r->bytes };

	memset(&r->overlapped, 0, sizeof(r->overlapped));
	r->kind = RECEIVED;
	r->flags = 0;
	if (pending(WSARecv(r->s, &buffer, 1, NULL, &r->flags, &r->overlapped, NULL))) {
		closesocket(r->s);
		free(r);
	}
}

static void receive_datagram(struct request *r)
{
	WSABUF buffer = { sizeof(r->bytes), r->bytes };

	memset(&r->overlapped, 0, sizeof(r->overlapped));
	r->kind = DATAGRAM;
	r->flags = 0;
	r->from_len = sizeof(r->from);
	if (pending(WSARecvFrom(r->s, &buffer, 1, NULL, &r->flags, (void *)&r->from, &r->from_len, &r->overlapped, NULL)))
		fail("WSARecvFrom");
}

static void accepted(struct request *r)
{
	struct request *stream = calloc(1, sizeof(*stream));
	struct sockaddr *local, *remote;
	struct sockaddr_in6 name;
	int local_len, remote_len, size = sizeof(name);

	accept_names(r->bytes, 0, PLACE, PLACE, &local, &local_len, &remote, &remote_len);
	if (local->sa_family != family || remote->sa_family != family)
		fail("the family of an accepted connection");
	if (((struct sockaddr_in *)local)->sin_port != there.sin_port || !((struct sockaddr_in *)remote)->sin_port)
		fail("the names of an accepted connection");
	if (setsockopt(r->s, SOL_SOCKET, SO_UPDATE_ACCEPT_CONTEXT, (void *)&listener, sizeof(listener)))
		fail("SO_UPDATE_ACCEPT_CONTEXT");
	if (getpeername(r->s, (void *)&name, &size) || name.sin6_family != family ||
	    name.sin6_port != ((struct sockaddr_in6 *)remote)->sin6_port)
		fail("the peer of an accepted connection");
	stream->s = r->s;
	if (!CreateIoCompletionPort((HANDLE)stream->s, port, 2, 0))
		fail("a port for a connection");
	receive(stream);
	accept_next(r);
}

static void completed(struct request *r, DWORD count, BOOL is_good)
{
	WSABUF buffer = { count, r->bytes };

	switch (r->kind) {
	case ACCEPTED:
		if (!is_good)
			fail("an accepted connection");
		accepted(r);
		return;
	case RECEIVED:
		if (!is_good || !count) {
			closesocket(r->s);
			free(r);
			return;
		}
		memset(&r->overlapped, 0, sizeof(r->overlapped));
		r->kind = SENT;
		if (pending(WSASend(r->s, &buffer, 1, NULL, 0, &r->overlapped, NULL))) {
			closesocket(r->s);
			free(r);
		}
		return;
	case SENT:
		receive(r);
		return;
	case DATAGRAM:
		if (!is_good) {
			receive_datagram(r);
			return;
		}
		if (count == 3 && !memcmp(r->bytes, "end", 3))
			exit(0);
		memset(&r->overlapped, 0, sizeof(r->overlapped));
		r->kind = DATAGRAM_SENT;
		if (pending(WSASendTo(r->s, &buffer, 1, NULL, 0, (void *)&r->from, r->from_len, &r->overlapped, NULL)))
			fail("WSASendTo");
		return;
	case DATAGRAM_SENT:
		receive_datagram(r);
	}
}

static void serve(const char *mode)
{
	union {
		struct sockaddr_in v4;
		struct sockaddr_in6 v6;
	} here = { .v4 = there };
	int no = 0, size = sizeof(here.v4);
	SOCKET udp;

	if (!strcmp(mode, "any"))
		here.v4.sin_addr.s_addr = INADDR_ANY;
	if (!strcmp(mode, "dual")) {
		family = here.v6.sin6_family = AF_INET6;
		here.v6.sin6_addr = in6addr_any;
		here.v6.sin6_flowinfo = here.v6.sin6_scope_id = 0;
		size = sizeof(here.v6);
	}
	udp = made(SOCK_DGRAM);
	listener = made(SOCK_STREAM);
	if (family == AF_INET6 && (setsockopt(udp, IPPROTO_IPV6, IPV6_V6ONLY, (void *)&no, sizeof(no)) ||
				   setsockopt(listener, IPPROTO_IPV6, IPV6_V6ONLY, (void *)&no, sizeof(no))))
		fail("IPV6_V6ONLY");
	if (bind(udp, (void *)&here, size) || bind(listener, (void *)&here, size) || listen(listener, 200))
		fail("bind or listen");
	accept_ex = function(listener, (GUID)WSAID_ACCEPTEX);
	accept_names = function(listener, (GUID)WSAID_GETACCEPTEXSOCKADDRS);
	port = CreateIoCompletionPort((HANDLE)listener, NULL, 1, 0);
	if (!port || !CreateIoCompletionPort((HANDLE)udp, port, 3, 0))
		fail("a completion port");
	for (int i = 0; i < 4; i++) {
		struct request *datagram = calloc(1, sizeof(*datagram));

		accept_next(calloc(1, sizeof(struct request)));
		datagram->s = udp;
		receive_datagram(datagram);
	}
	printf("ready\n");
	fflush(stdout);
	for (;;) {
		OVERLAPPED_ENTRY entries[16];
		ULONG count;

		if (!GetQueuedCompletionStatusEx(port, entries, 16, &count, INFINITE, FALSE))
			fail("GetQueuedCompletionStatusEx");
		for (ULONG i = 0; i < count; i++) {
			struct request *r = CONTAINING_RECORD(entries[i].lpOverlapped, struct request, overlapped);
			ULONG_PTR key = r->kind == ACCEPTED ? 1 : r->kind <= SENT ? 2 : 3;

			if (entries[i].lpCompletionKey != key)
				fail("another key");
			completed(r, entries[i].dwNumberOfBytesTransferred, !(LONG)entries[i].Internal);
		}
	}
}

/* How the client waits for its requests. */
static enum way { BY_PORT, BY_EVENT, BY_ROUTINE, BY_RESULT } way;

static DWORD routine_error, routine_bytes;
static int routine_calls;

static void CALLBACK routine(DWORD error, DWORD bytes, OVERLAPPED *overlapped, DWORD flags)
{
	routine_error = error;
	routine_bytes = bytes;
	routine_calls++;
}

/* Waits until a request is complete; returns its bytes. */
static DWORD done(SOCKET s, OVERLAPPED *overlapped, int is_skipped)
{
	DWORD count = 0, flags;
	OVERLAPPED *found = NULL;
	ULONG_PTR key;

	switch (way) {
	case BY_PORT:
		if (is_skipped)
			return overlapped->InternalHigh;
		if (!GetQueuedCompletionStatus(port, &count, &key, &found, 5000) || found != overlapped || key != 7)
			fail("GetQueuedCompletionStatus");
		return count;
	case BY_EVENT:
		if (WSAWaitForMultipleEvents(1, &overlapped->hEvent, TRUE, 5000, FALSE) != WSA_WAIT_EVENT_0)
			fail("an event");
		if (!WSAGetOverlappedResult(s, overlapped, &count, FALSE, &flags))
			fail("WSAGetOverlappedResult");
		return count;
	case BY_ROUTINE:
		while (!routine_calls)
			if (SleepEx(5000, TRUE) != WAIT_IO_COMPLETION)
				fail("a completion routine");
		if (routine_calls-- != 1 || routine_error)
			fail("the call of a completion routine");
		return routine_bytes;
	default:
		if (!GetOverlappedResult((HANDLE)s, overlapped, &count, TRUE))
			fail("GetOverlappedResult");
		return count;
	}
}

static OVERLAPPED fresh(HANDLE event)
{
	OVERLAPPED overlapped = { 0 };

	overlapped.hEvent = way == BY_EVENT ? event : NULL;
	return overlapped;
}

static SOCKET connected(void)
{
	struct sockaddr_in any = { .sin_family = AF_INET }, name;
	OVERLAPPED overlapped = { 0 };
	SOCKET s = made(SOCK_STREAM);
	int size = sizeof(name), one = 1;
	DWORD count, flags;

	if (!connect_ex)
		connect_ex = function(s, (GUID)WSAID_CONNECTEX);
	overlapped.hEvent = WSACreateEvent();
	if (connect_ex(s, (void *)&there, sizeof(there), NULL, 0, &count, &overlapped) || WSAGetLastError() != WSAEINVAL)
		fail("ConnectEx of a socket that is not bound");
	if (bind(s, (void *)&any, sizeof(any)))
		fail("bind");
	if (!connect_ex(s, (void *)&there, sizeof(there), "hello", 5, &count, &overlapped) &&
	    WSAGetLastError() != WSA_IO_PENDING)
		fail("ConnectEx");
	if (!WSAGetOverlappedResult(s, &overlapped, &count, TRUE, &flags) || count != 5)
		fail("the result of ConnectEx");
	if (setsockopt(s, SOL_SOCKET, SO_UPDATE_CONNECT_CONTEXT, NULL, 0))
		fail("SO_UPDATE_CONNECT_CONTEXT");
	if (getpeername(s, (void *)&name, &size) || name.sin_port != there.sin_port)
		fail("getpeername");
	if (getsockname(s, (void *)&name, &size) || !name.sin_port || !name.sin_addr.s_addr)
		fail("getsockname");
	setsockopt(s, IPPROTO_TCP, TCP_NODELAY, (void *)&one, sizeof(one));
	WSACloseEvent(overlapped.hEvent);
	return s;
}

static void measure(const char *name, int count, int skips)
{
	double *times = malloc(count * sizeof(*times));
	LPWSAOVERLAPPED_COMPLETION_ROUTINE function = way == BY_ROUTINE ? routine : NULL;
	HANDLE event = WSACreateEvent();
	SOCKET s = connected();
	DWORD got = 0, flags = 0;
	char hello[8];
	WSABUF greeting = { 5, hello };
	OVERLAPPED first = fresh(event);

	if (way == BY_PORT) {
		port = CreateIoCompletionPort((HANDLE)s, NULL, 7, 0);
		if (!port || (skips && !SetFileCompletionNotificationModes((HANDLE)s, FILE_SKIP_COMPLETION_PORT_ON_SUCCESS)))
			fail("a port, and its mode");
	}
	int result = WSARecv(s, &greeting, 1, NULL, &flags, &first, function);

	if (pending(result) || done(s, &first, skips && !result) != 5 || memcmp(hello, "hello", 5))
		fail("what ConnectEx has sent");
	for (int i = 0; i < count; i++) {
		char sent[MESSAGE], answer[MESSAGE];
		WSABUF out[2] = { { 16, sent }, { MESSAGE - 16, sent + 16 } };
		WSABUF in[2] = { { 40, answer }, { MESSAGE - 40, answer + 40 } };
		OVERLAPPED receiving = fresh(event), sending = fresh(event);
		double begin = now_us();

		memset(sent, i, sizeof(sent));
		result = WSASend(s, out, 2, NULL, 0, &sending, function);
		if (pending(result) || done(s, &sending, skips && !result) != MESSAGE)
			fail("WSASend");
		flags = MSG_WAITALL;
		result = WSARecv(s, in, 2, NULL, &flags, &receiving, function);
		if (pending(result) || (got = done(s, &receiving, skips && !result)) != MESSAGE)
			fail("WSARecv");
		if (memcmp(sent, answer, sizeof(sent)))
			fail("another answer");
		times[i] = now_us() - begin;
	}
	print_times(name, times, count);
	closesocket(s);
	if (way == BY_PORT)
		CloseHandle(port);
	WSACloseEvent(event);
	free(times);
}

static void transmit(void)
{
	char path[MAX_PATH], folder[MAX_PATH];
	TRANSMIT_FILE_BUFFERS around = { "head", 4, "tail", 4 };
	OVERLAPPED overlapped = { 0 };
	static char bytes[CHUNK];
	SOCKET s = connected();
	DWORD count, flags;
	HANDLE file;
	int received = 0, more;

	GetTempPathA(sizeof(folder), folder);
	GetTempFileNameA(folder, "tw", 0, path);
	file = CreateFileA(path, GENERIC_READ | GENERIC_WRITE, 0, NULL, CREATE_ALWAYS, FILE_FLAG_DELETE_ON_CLOSE, NULL);
	for (int at = 0; at < FILE_SIZE; at += CHUNK) {
		for (int i = 0; i < CHUNK; i++)
			bytes[i] = (char)((at + i) * 7 / 5);
		if (!WriteFile(file, bytes, CHUNK, &count, NULL))
			fail("WriteFile");
	}
	overlapped.hEvent = WSACreateEvent();
	if (!TransmitFile(s, file, 0, 0, &overlapped, &around, 0) && WSAGetLastError() != WSA_IO_PENDING)
		fail("TransmitFile");
	/* What ConnectEx has sent comes first. */
	while (received < FILE_SIZE + 13 && (more = recv(s, bytes, sizeof(bytes), 0)) > 0)
		for (int i = 0; i < more; i++, received++) {
			int at = received - 9;
			char wanted = received < 9 ? "hellohead"[received] :
				      at < FILE_SIZE ? (char)(at * 7 / 5) : "tail"[at - FILE_SIZE];

			if (bytes[i] != wanted)
				fail("another byte of the file");
		}
	if (received != FILE_SIZE + 13)
		fail("the end of the file");
	if (!WSAGetOverlappedResult(s, &overlapped, &count, TRUE, &flags) || count != FILE_SIZE + 8)
		fail("the result of TransmitFile");
	CloseHandle(file);
	closesocket(s);
	printf("a file of %d bytes\n", FILE_SIZE);
}

static void refused(void)
{
	struct sockaddr_in any = { .sin_family = AF_INET }, other = there;
	OVERLAPPED overlapped = { 0 };
	SOCKET s = made(SOCK_STREAM);
	DWORD count, flags;

	other.sin_port = htons(ntohs(there.sin_port) + 1);
	overlapped.hEvent = WSACreateEvent();
	if (bind(s, (void *)&any, sizeof(any)))
		fail("bind");
	if (connect_ex(s, (void *)&other, sizeof(other), NULL, 0, &count, &overlapped))
		fail("a connection that is to be refused");
	if (WSAGetLastError() != WSAECONNREFUSED &&
	    (WSAGetLastError() != WSA_IO_PENDING || WSAGetOverlappedResult(s, &overlapped, &count, TRUE, &flags) ||
	     WSAGetLastError() != WSAECONNREFUSED))
		fail("a refused connection");
	closesocket(s);
	printf("refused\n");
}

static void cancelled(void)
{
	SOCKET s = connected();
	char bytes[8], more[8];
	WSABUF buffer = { 5, bytes }, other = { 5, more };
	OVERLAPPED first = { 0 }, second = { 0 };
	DWORD count, flags = MSG_WAITALL;

	first.hEvent = WSACreateEvent();
	second.hEvent = WSACreateEvent();
	if (WSARecv(s, &buffer, 1, NULL, &flags, &first, NULL) && WSAGetLastError() != WSA_IO_PENDING)
		fail("WSARecv");
	if (!WSAGetOverlappedResult(s, &first, &count, TRUE, &flags) || count != 5)
		fail("the greeting");
	flags = 0;
	if (!WSARecv(s, &buffer, 1, NULL, &flags, &first, NULL) || WSAGetLastError() != WSA_IO_PENDING)
		fail("WSARecv without data");
	if (!WSARecv(s, &other, 1, NULL, &flags, &second, NULL) || WSAGetLastError() != WSA_IO_PENDING)
		fail("a second WSARecv without data");
	if (WSAGetOverlappedResult(s, &first, &count, FALSE, &flags) || WSAGetLastError() != WSA_IO_INCOMPLETE)
		fail("a request that is not complete");
	if (!CancelIoEx((HANDLE)s, &first))
		fail("CancelIoEx");
	if (WSAGetOverlappedResult(s, &first, &count, TRUE, &flags) || WSAGetLastError() != WSA_OPERATION_ABORTED)
		fail("a cancelled request");
	if (CancelIoEx((HANDLE)s, &first) || GetLastError() != ERROR_NOT_FOUND)
		fail("CancelIoEx once more");
	if (send(s, "again", 5, 0) != 5 || !WSAGetOverlappedResult(s, &second, &count, TRUE, &flags) || count != 5 ||
	    memcmp(more, "again", 5))
		fail("the request behind a cancelled one");
	if (!WSARecv(s, &other, 1, NULL, &flags, &second, NULL) || WSAGetLastError() != WSA_IO_PENDING)
		fail("a last WSARecv");
	closesocket(s);
	if (WaitForSingleObject(second.hEvent, 5000) || second.Internal == 0)
		fail("a request of a closed socket");
	printf("cancelled\n");
}

static void disconnected(void)
{
	SOCKET s = connected();
	OVERLAPPED overlapped = { 0 };
	DWORD count, flags;
	char bytes[8];

	disconnect_ex = function(s, (GUID)WSAID_DISCONNECTEX);
	if (recv(s, bytes, 5, 0) != 5)
		fail("recv");
	overlapped.hEvent = WSACreateEvent();
	if (!disconnect_ex(s, &overlapped, 0, 0) &&
	    (WSAGetLastError() != WSA_IO_PENDING || !WSAGetOverlappedResult(s, &overlapped, &count, TRUE, &flags)))
		fail("DisconnectEx");
	if (send(s, bytes, 5, 0) != SOCKET_ERROR)
		fail("send after DisconnectEx");
	closesocket(s);
	printf("disconnected\n");
}

static void messages(void)
{
	struct sockaddr_in any = { .sin_family = AF_INET }, from;
	SOCKET s = made(SOCK_DGRAM);
	char sent[MESSAGE] = "a message", answer[MESSAGE], small[4];
	WSABUF out = { sizeof(sent), sent }, in = { sizeof(answer), answer };
	WSAMSG to = { (void *)&there, sizeof(there), &out, 1 }, back = { (void *)&from, sizeof(from), &in, 1 };
	OVERLAPPED receiving = { 0 };
	DWORD count, flags;

	if (bind(s, (void *)&any, sizeof(any)))
		fail("bind");
	receive_message = function(s, (GUID)WSAID_WSARECVMSG);
	receiving.hEvent = WSACreateEvent();
	if (!receive_message(s, &back, NULL, &receiving, NULL) || WSAGetLastError() != WSA_IO_PENDING)
		fail("WSARecvMsg");
	if (WSASendMsg(s, &to, 0, &count, NULL, NULL) || count != sizeof(sent))
		fail("WSASendMsg");
	if (!WSAGetOverlappedResult(s, &receiving, &count, TRUE, &flags) || count != sizeof(sent) ||
	    memcmp(sent, answer, sizeof(sent)) || from.sin_port != there.sin_port)
		fail("a message");
	/* A buffer that is too short. */
	in = (WSABUF){ sizeof(small), small };
	flags = 0;
	if (!WSARecvFrom(s, &in, 1, NULL, &flags, NULL, NULL, &receiving, NULL) || WSAGetLastError() != WSA_IO_PENDING)
		fail("WSARecvFrom");
	if (sendto(s, sent, sizeof(sent), 0, (void *)&there, sizeof(there)) != sizeof(sent))
		fail("sendto");
	if (WSAGetOverlappedResult(s, &receiving, &count, TRUE, &flags) || WSAGetLastError() != WSAEMSGSIZE ||
	    count != sizeof(small) || memcmp(small, sent, sizeof(small)))
		fail("a message that is cut");
	/* The kernel's half of the socket: the loopback. */
	in = (WSABUF){ sizeof(answer), answer };
	flags = 0;
	if (!WSARecvFrom(s, &in, 1, NULL, &flags, NULL, NULL, &receiving, NULL) || WSAGetLastError() != WSA_IO_PENDING)
		fail("WSARecvFrom for the loopback");
	int size = sizeof(from);

	if (getsockname(s, (void *)&from, &size))
		fail("getsockname");
	from.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
	if (sendto(s, "tick", 4, 0, (void *)&from, sizeof(from)) != 4)
		fail("sendto by the loopback");
	if (!WSAGetOverlappedResult(s, &receiving, &count, TRUE, &flags) || count != 4 || memcmp(answer, "tick", 4))
		fail("a datagram by the loopback");
	closesocket(s);
	printf("messages\n");
}

int main(int count, char **arguments)
{
	WSADATA data;

	if (count < 4)
		return 2;
	setvbuf(stdout, NULL, _IONBF, 0);
	if (WSAStartup(0x202, &data))
		fail("WSAStartup");
	there.sin_family = AF_INET;
	there.sin_addr.s_addr = inet_addr(arguments[2]);
	there.sin_port = htons(atoi(arguments[3]));
	if (!strcmp(arguments[1], "server"))
		serve(count > 4 ? arguments[4] : "");
	if (!strcmp(arguments[1], "client") && count > 4) {
		int messages_each = atoi(arguments[4]);

		way = BY_RESULT;
		measure("result", messages_each, 0);
		way = BY_EVENT;
		measure("event", messages_each, 0);
		way = BY_PORT;
		measure("port", messages_each, 0);
		measure("port_skipped", messages_each, 1);
		way = BY_ROUTINE;
		measure("routine", messages_each, 0);
		transmit();
		refused();
		cancelled();
		disconnected();
		messages();
	}
	printf("done\n");
	return 0;
}
