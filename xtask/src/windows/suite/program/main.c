/*
 * Runs the cases of a group:
 *
 *     suite list
 *     suite HERE PEER HERE6 PEER6 PORT GROUP [CASE,CASE...]
 *
 * Each case runs in a thread of its own and has a time limit: a case that hangs says so, and the
 * next one begins.
 */
#include "suite.h"
#include <stdarg.h>

/* Milliseconds. */
#define TIME_LIMIT 8000

#define LONGEST 4096
#define STACK (512 << 10)

struct sockaddr_in here, peer, closed_port;
struct sockaddr_in6 here6, peer6, closed_port6;

static struct suite_case *cases;

/* What the running case has said. A thread of a case that hung says nothing any more. */
static char said[LONGEST];
static DWORD speaker;
static CRITICAL_SECTION speech;

static int is_before(const struct suite_case *a, const struct suite_case *b)
{
	int order = strcmp(a->group, b->group);

	if (!order)
		order = strcmp(a->file, b->file);
	return order ? order < 0 : a->line < b->line;
}

void add_case(struct suite_case *one)
{
	struct suite_case **place = &cases;

	while (*place && !is_before(one, *place))
		place = &(*place)->next;
	one->next = *place;
	*place = one;
}

void say(const char *format, ...)
{
	int error = WSAGetLastError();
	char text[512];
	va_list arguments;

	va_start(arguments, format);
	vsnprintf(text, sizeof(text), format, arguments);
	va_end(arguments);
	EnterCriticalSection(&speech);
	if (speaker == GetCurrentThreadId() && strlen(said) + strlen(text) + 2 < sizeof(said)) {
		strcat(said, " ");
		strcat(said, text);
	}
	LeaveCriticalSection(&speech);
	WSASetLastError(error);
}

static LONG CALLBACK on_exception(EXCEPTION_POINTERS *exception)
{
	if (GetCurrentThreadId() == speaker) {
		say("exception-%08lx", (unsigned long)exception->ExceptionRecord->ExceptionCode);
		ExitThread(1);
	}
	return EXCEPTION_CONTINUE_SEARCH;
}

/* The running case sets it at its end; each has its own, because one that hung may end later. */
static HANDLE done;

/* Requests that are left may still write into the thread's stack, so it stays. */
static DWORD CALLBACK body(void *argument)
{
	const struct suite_case *one = argument;
	HANDLE end = done;

	one->run(one->argument);
	SetEvent(end);
	Sleep(INFINITE);
	return 0;
}

static void run(struct suite_case *one)
{
	HANDLE ends[2];
	int has_ended;

	EnterCriticalSection(&speech);
	said[0] = 0;
	done = CreateEventW(NULL, FALSE, FALSE, NULL);
	ends[0] = CreateThread(NULL, STACK, body, one, CREATE_SUSPENDED | STACK_SIZE_PARAM_IS_A_RESERVATION, &speaker);
	ends[1] = done;
	LeaveCriticalSection(&speech);
	ResumeThread(ends[0]);
	has_ended = WaitForMultipleObjects(2, ends, FALSE, TIME_LIMIT) != WAIT_TIMEOUT;
	EnterCriticalSection(&speech);
	speaker = 0;
	printf("case %s %s%s%s\n", one->group, one->name, said, has_ended ? "" : " hangs");
	fflush(stdout);
	LeaveCriticalSection(&speech);
	CloseHandle(ends[0]);
}

static void address(const char *text, const char *text6, int port, struct sockaddr_in *v4, struct sockaddr_in6 *v6)
{
	v4->sin_family = AF_INET;
	v6->sin6_family = AF_INET6;
	v4->sin_port = v6->sin6_port = htons(port);
	if (inet_pton(AF_INET, text, &v4->sin_addr) != 1 || inet_pton(AF_INET6, text6, &v6->sin6_addr) != 1) {
		printf("no addresses: %s, %s\n", text, text6);
		exit(2);
	}
}

/* Whether a list of names, with commas between them, has a name. */
static int is_named(const char *name, const char *list)
{
	size_t length = strlen(name);

	for (const char *at = list; at; at = strchr(at, ','), at = at ? at + 1 : NULL)
		if (!strncmp(at, name, length) && (!at[length] || at[length] == ','))
			return 1;
	return 0;
}

int main(int count, char **words)
{
	WSADATA data;
	int found = 0;

	InitializeCriticalSection(&speech);
	if (count == 2 && !strcmp(words[1], "list")) {
		for (struct suite_case *one = cases; one; one = one->next)
			printf("%s %s\n", one->group, one->name);
		return 0;
	}
	if (count < 7 || WSAStartup(MAKEWORD(2, 2), &data)) {
		printf("suite list | suite HERE PEER HERE6 PEER6 PORT GROUP [CASE,CASE...]\n");
		return 2;
	}
	address(words[1], words[3], 0, &here, &here6);
	address(words[2], words[4], atoi(words[5]), &peer, &peer6);
	address(words[2], words[4], atoi(words[5]) + 1, &closed_port, &closed_port6);
	SetUnhandledExceptionFilter(on_exception);
	for (struct suite_case *one = cases; one; one = one->next)
		if (!strcmp(one->group, words[6]) && (count == 7 || is_named(one->name, words[7]))) {
			run(one);
			found = 1;
		}
	printf("end of %s\n", words[6]);
	fflush(stdout);
	return !found;
}
