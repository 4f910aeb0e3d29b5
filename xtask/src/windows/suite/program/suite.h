/*
 * A suite of Winsock: each case makes calls and says what a caller sees of them. The same cases run
 * on the kernel's sockets and on the lane, and xtask compares what they say. So a case says nothing
 * that differs from run to run: no ports, no times, no handles.
 */
#ifndef SUITE_H
#define SUITE_H

#include <winsock2.h>
#include <mswsock.h>
#include <ws2tcpip.h>
#include <windows.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* A case; it is in the list once its file has been loaded. */
struct suite_case {
	const char *group, *name, *file;
	int line;
	void (*run)(const void *argument);
	const void *argument;
	struct suite_case *next;
};

void add_case(struct suite_case *one);

/* Defines a case of the file's SUBJECT. */
#define CASE(name)                                                                                 \
	static void case_##name(const void *);                                                      \
	__attribute__((constructor)) static void add_##name(void)                                   \
	{                                                                                           \
		static struct suite_case one = {                                                    \
			SUBJECT, #name, __FILE__, __LINE__, case_##name, NULL, NULL                     \
		};                                                                                    \
		add_case(&one);                                                                     \
	}                                                                                           \
	static void case_##name(const void *unused)

/* What a case says: words, and the result of a call with its error. */
void say(const char *format, ...) __attribute__((format(printf, 1, 2)));
void say_number(const char *what, long long result);
void say_success(const char *what, int is_good);
void say_error(const char *what, int error);

/* A call that returns a number, -1 if it fails. */
#define NUMBER(what, call) (WSASetLastError(0), say_number(what, (long long)(call)))
/* A call that returns 0, a socket or a count that may differ; -1 if it fails. */
#define OKAY(what, call) (WSASetLastError(0), say_success(what, (long long)(call) != -1))
/* A call that returns a truth value. */
#define TRUTH(what, call) (WSASetLastError(0), say_success(what, (call) != 0))

/* This host, the peer, in both families, and a port of the peer where nothing listens. */
extern struct sockaddr_in here, peer, closed_port;
extern struct sockaddr_in6 here6, peer6, closed_port6;

#define NAME(address) ((struct sockaddr *)&(address))

SOCKET stream(void);
SOCKET datagram(void);
SOCKET overlapped_stream(void);

/* A connection to the peer, which performs the words of a script (see peer.py). */
SOCKET talk(const char *script);
SOCKET talk6(const char *script);

/* A listener on this host, its name in `name`. */
SOCKET listening(struct sockaddr_in *name);

/* A connection that the peer makes to the listener, and what it does with it. The connection by
 * which the peer was asked is returned. */
SOCKET dialled(const struct sockaddr_in *name, const char *script);

/* An accepted connection, with the script of the peer. */
SOCKET accepted(const char *script, SOCKET *control);

/* A datagram socket at this host. */
SOCKET bound_datagram(struct sockaddr_in *name);

/* Sends a text to the peer's datagram port. */
void ask(SOCKET s, const char *text);

/* Waits until there is something to be received (or to be accepted), or an exception. */
int readable(SOCKET s);
int exceptional(SOCKET s);

/* Says what the peer tells of a connection. */
void heard(SOCKET control);

/* Says whether bytes are those that the peer sends. */
void say_bytes(const char *bytes, int count);

void nonblocking(SOCKET s);
int *number(int value);

/* Says a name: which host, and whether its port is that one. */
void say_name(const char *what, const void *name, int length, int port);

/* An extension function. */
void *extension(SOCKET s, GUID id);
#define EXTENSION(type, s, id) ((type)extension(s, (GUID)id))

/* Says how a request has failed, unless it has ended well or will end later. */
void say_unless_begun(const char *what, int is_good);

/* Waits for a request with an event, and says its result. */
void finished(const char *what, SOCKET s, OVERLAPPED *overlapped);
OVERLAPPED with_event(void);

/* Begins to receive so many bytes; says how the call returned. */
void begin_receiving(SOCKET s, OVERLAPPED *overlapped, char *into, int length, DWORD wanted);

/* Says what is taken from a completion port within some time. */
void taken(const char *what, HANDLE port, OVERLAPPED *expected, ULONG_PTR key);

/* The shortest time in which nothing is to happen, in milliseconds. */
#define QUIET 60

/* The longest time that something may take. */
#define PATIENCE_MS 4000

#endif
