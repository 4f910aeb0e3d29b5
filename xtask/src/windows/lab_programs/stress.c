/*
 * A program with many connections and long streams, for both ends of which its peer vouches:
 *
 *     stress server ADDRESS PORT                          serves, with a thread for each connection
 *     stress client ADDRESS PORT MIB CONNECTIONS AT_ONCE  uses such a server on another host
 *
 * The first byte of a connection says what it is for:
 *
 *     e   echo
 *     s   the server reads a stream, and answers with its hash in 8 bytes
 *     g   the server sends a stream
 *     q   the server ends
 *
 * Then comes how many bytes that are, in 8 bytes. The peer of this program is the one that closes
 * first. The bytes of a stream are those of a generator, and its hash is FNV-1a of 64 bits. The
 * client says how many handles it has after each step. It knows nothing of Tickwire.
 */
#include "common.h"
#include "handles.h"

#define CHUNK 65536
#define MESSAGE 100

typedef unsigned long long u64;

static struct sockaddr_in there;

struct stream {
	u64 state, hash, length;
};

#define NEW_STREAM { 0x9e3779b97f4a7c15ULL, 0xcbf29ce484222325ULL, 0 }

static void hash(struct stream *stream, const char *bytes, int count)
{
	for (int i = 0; i < count; i++)
		stream->hash = (stream->hash ^ (unsigned char)bytes[i]) * 0x100000001b3ULL;
	stream->length += count;
}

/* The next bytes of the generator, whole words of 8. */
static void generate(struct stream *stream, char *bytes, int count)
{
	for (int i = 0; i < count; i += 8) {
		stream->state ^= stream->state << 13;
		stream->state ^= stream->state >> 7;
		stream->state ^= stream->state << 17;
		memcpy(bytes + i, &stream->state, 8);
	}
}

static int send_all(SOCKET s, const char *bytes, int count)
{
	for (int sent = 0, more; sent < count; sent += more)
		if ((more = send(s, bytes + sent, count - sent, 0)) <= 0)
			return 0;
	return 1;
}

static int receive_all(SOCKET s, char *bytes, int count)
{
	for (int received = 0, more; received < count; received += more)
		if ((more = recv(s, bytes + received, count - received, 0)) <= 0)
			return 0;
	return 1;
}

static int send_stream(SOCKET s, struct stream *stream, u64 length, char *bytes)
{
	while (stream->length < length) {
		int count = length - stream->length < CHUNK ? (int)(length - stream->length) : CHUNK;

		generate(stream, bytes, (count + 7) & ~7);
		if (!send_all(s, bytes, count))
			return 0;
		hash(stream, bytes, count);
	}
	return 1;
}

static void echo(SOCKET s, u64 length, char *bytes)
{
	int count;

	while (length && (count = recv(s, bytes, length < CHUNK ? (int)length : CHUNK, 0)) > 0) {
		if (!send_all(s, bytes, count))
			break;
		length -= count;
	}
}

static void sink(SOCKET s, u64 length, char *bytes)
{
	struct stream stream = NEW_STREAM;
	int count;

	while (stream.length < length && (count = recv(s, bytes, CHUNK, 0)) > 0)
		hash(&stream, bytes, count);
	if (stream.length == length)
		send_all(s, (void *)&stream.hash, sizeof(stream.hash));
}

static DWORD WINAPI serve_one(void *argument)
{
	struct stream stream = NEW_STREAM;
	char *bytes = malloc(CHUNK), kind;
	SOCKET s = (SOCKET)argument;
	u64 length;

	if (bytes && receive_all(s, &kind, 1) && receive_all(s, (void *)&length, sizeof(length))) {
		switch (kind) {
		case 'e':
			echo(s, length, bytes);
			break;
		case 's':
			sink(s, length, bytes);
			break;
		case 'g':
			send_stream(s, &stream, length, bytes);
			break;
		case 'q':
			exit(0);
		}
		recv(s, bytes, 1, 0);
	}
	closesocket(s);
	free(bytes);
	return 0;
}

static HANDLE begin(LPTHREAD_START_ROUTINE run, void *argument)
{
	HANDLE thread = CreateThread(NULL, 0, run, argument, 0, NULL);

	if (!thread)
		fail("CreateThread");
	return thread;
}

static void serve(void)
{
	SOCKET listener = socket(AF_INET, SOCK_STREAM, 0), s;

	if (bind(listener, (void *)&there, sizeof(there)) || listen(listener, 200))
		fail("bind or listen");
	printf("ready\n");
	fflush(stdout);
	while ((s = accept(listener, NULL, NULL)) != INVALID_SOCKET)
		CloseHandle(begin(serve_one, (void *)s));
	fail("accept");
}

static SOCKET connected(char kind, u64 length)
{
	SOCKET s = socket(AF_INET, SOCK_STREAM, 0);
	DWORD timeout_ms = 60000;

	if (connect(s, (void *)&there, sizeof(there)))
		fail("connect");
	setsockopt(s, SOL_SOCKET, SO_RCVTIMEO, (void *)&timeout_ms, sizeof(timeout_ms));
	if (!send_all(s, &kind, 1) || !send_all(s, (void *)&length, sizeof(length)))
		fail("send");
	return s;
}

/* The peer closes first. */
static void end(SOCKET s)
{
	char byte;

	if (recv(s, &byte, 1, 0))
		fail("the end of a connection");
	closesocket(s);
}

static void message(int number)
{
	char sent[MESSAGE], answer[MESSAGE];
	SOCKET s = connected('e', MESSAGE);

	memset(sent, number, sizeof(sent));
	if (!send_all(s, sent, sizeof(sent)) || !receive_all(s, answer, sizeof(answer)))
		fail("a message");
	if (memcmp(sent, answer, sizeof(sent)))
		fail("another answer");
	end(s);
}

static void upload(u64 length)
{
	struct stream stream = NEW_STREAM;
	char *bytes = malloc(CHUNK);
	SOCKET s = connected('s', length);
	u64 answer;

	if (!send_stream(s, &stream, length, bytes))
		fail("send of a stream");
	if (!receive_all(s, (void *)&answer, sizeof(answer)) || answer != stream.hash)
		fail("the peer has another stream");
	end(s);
	free(bytes);
}

static void download(u64 length)
{
	struct stream received = NEW_STREAM, expected = NEW_STREAM;
	char *bytes = malloc(CHUNK);
	SOCKET s = connected('g', length);
	int count;

	while ((count = recv(s, bytes, CHUNK, 0)) > 0)
		hash(&received, bytes, count);
	closesocket(s);
	while (expected.length < length) {
		count = length - expected.length < CHUNK ? (int)(length - expected.length) : CHUNK;
		generate(&expected, bytes, (count + 7) & ~7);
		hash(&expected, bytes, count);
	}
	if (count < 0 || received.length != length || received.hash != expected.hash)
		fail("another stream came");
	free(bytes);
}

#define EACH 16384
#define TIMES 16

static DWORD WINAPI exchange_many(void *argument)
{
	SOCKET s = (SOCKET)argument;
	char *sent = malloc(EACH), *answer = malloc(EACH);

	memset(sent, (int)(size_t)argument, EACH);
	for (int i = 0; i < TIMES; i++)
		if (!send_all(s, sent, EACH) || !receive_all(s, answer, EACH) || memcmp(sent, answer, EACH))
			fail("an exchange");
	end(s);
	free(sent);
	free(answer);
	return 0;
}

static void at_once(int count)
{
	SOCKET *sockets = malloc(count * sizeof(*sockets));
	HANDLE *threads = malloc(count * sizeof(*threads));

	for (int i = 0; i < count; i++)
		sockets[i] = connected('e', EACH * TIMES);
	for (int i = 0; i < count; i++)
		threads[i] = begin(exchange_many, (void *)sockets[i]);
	for (int i = 0; i < count; i++) {
		WaitForSingleObject(threads[i], INFINITE);
		CloseHandle(threads[i]);
	}
	free(sockets);
	free(threads);
}

/* Connections that were just closed keep their handles until the peer has acknowledged that. */
static void say(const char *what)
{
	static int first = -1;
	int now = count_handles(GetCurrentProcessId());

	if (first < 0)
		first = now;
	for (int i = 0; i < 100 && now > first; i++) {
		Sleep(100);
		now = count_handles(GetCurrentProcessId());
	}
	printf("%s handles=%d\n", what, now);
	fflush(stdout);
}

int main(int count, char **arguments)
{
	WSADATA data;

	if (count < 4)
		return 2;
	if (WSAStartup(0x202, &data))
		fail("WSAStartup");
	there.sin_family = AF_INET;
	there.sin_addr.s_addr = inet_addr(arguments[2]);
	there.sin_port = htons(atoi(arguments[3]));
	if (!strcmp(arguments[1], "server"))
		serve();
	if (count != 7)
		return 2;
	/* The first connection gets the lane, and what else is there once. */
	message(0);
	at_once(2);
	say("begin");
	upload((u64)atoi(arguments[4]) << 20);
	download((u64)atoi(arguments[4]) << 20);
	say("streams");
	for (int i = 0; i < atoi(arguments[5]); i++)
		message(i);
	say("connections");
	at_once(atoi(arguments[6]));
	say("at once");
	return 0;
}
