/* select and WSAPoll. */
#include "suite.h"

#define SUBJECT "readiness"

enum { READ_SET = 1, WRITE_SET = 2, EXCEPTION_SET = 4 };

/* Asks once for these sets of a socket, within so many milliseconds. */
static void chosen(const char *what, SOCKET s, int wanted, int time_ms)
{
	struct timeval time = { time_ms / 1000, time_ms % 1000 * 1000 };
	fd_set sets[3];
	int count;

	for (int i = 0; i < 3; i++) {
		FD_ZERO(&sets[i]);
		if (wanted & 1 << i)
			FD_SET(s, &sets[i]);
	}
	WSASetLastError(0);
	count = select(0, wanted & READ_SET ? &sets[0] : NULL, wanted & WRITE_SET ? &sets[1] : NULL,
		       wanted & EXCEPTION_SET ? &sets[2] : NULL, &time);
	if (count < 0)
		say_number(what, -1);
	else
		say("%s=%d/%s%s%s", what, count, FD_ISSET(s, &sets[0]) ? "in" : "", FD_ISSET(s, &sets[1]) ? "out" : "",
		    FD_ISSET(s, &sets[2]) ? "exception" : "");
}

static void polled(const char *what, SOCKET s, short wanted, int time_ms)
{
	WSAPOLLFD one = { s, wanted, 0x5555 };
	int count;

	WSASetLastError(0);
	count = WSAPoll(&one, 1, time_ms);
	if (count < 0)
		say_number(what, -1);
	else
		say("%s=%d/%x", what, count, (unsigned short)one.revents);
}

/* The state of a socket as both tell it. */
static void both(SOCKET s)
{
	chosen("select", s, READ_SET | WRITE_SET | EXCEPTION_SET, 0);
	chosen("in", s, READ_SET, 0);
	chosen("out", s, WRITE_SET, 0);
	chosen("exception", s, EXCEPTION_SET, 0);
	polled("poll", s, POLLIN | POLLOUT, 0);
	polled("poll-none", s, 0, 0);
}

CASE(fresh_stream) { SOCKET s = stream(); both(s); closesocket(s); }
CASE(fresh_datagram) { SOCKET s = datagram(); both(s); closesocket(s); }

CASE(bound_stream)
{
	struct sockaddr_in name = here;
	SOCKET s = stream();

	bind(s, NAME(name), sizeof(name));
	both(s);
	closesocket(s);
}

CASE(bound_datagram)
{
	struct sockaddr_in name;
	SOCKET s = bound_datagram(&name);

	both(s);
	ask(s, "abc");
	readable(s);
	both(s);
	closesocket(s);
}

CASE(connection)
{
	SOCKET s = talk("go send:1 go drain");

	both(s);
	send(s, "g", 1, 0);
	readable(s);
	both(s);
	closesocket(s);
}

CASE(connection_at_the_end) { SOCKET s = talk("close"); readable(s); both(s); closesocket(s); }
CASE(connection_half_closed) { SOCKET s = talk("fin drain"); readable(s); both(s); closesocket(s); }
CASE(connection_with_data_and_the_end) { SOCKET s = talk("send:3 close"); readable(s); Sleep(QUIET); both(s); closesocket(s); }
CASE(connection_after_a_reset) { SOCKET s = talk("reset"); readable(s); both(s); closesocket(s); }

CASE(connection_after_shutdown)
{
	SOCKET s = talk("drain sleep:500");

	shutdown(s, SD_SEND);
	both(s);
	closesocket(s);
}

CASE(connection_after_shutdown_of_receiving)
{
	SOCKET s = talk("drain");

	shutdown(s, SD_RECEIVE);
	both(s);
	closesocket(s);
}

CASE(connection_with_urgent_data)
{
	SOCKET s = talk("urgent:u go drain");

	exceptional(s);
	both(s);
	closesocket(s);
}

CASE(urgent_data_inline)
{
	SOCKET s = talk("go urgent:u go drain");

	setsockopt(s, SOL_SOCKET, SO_OOBINLINE, (char *)number(1), sizeof(int));
	send(s, "g", 1, 0);
	readable(s);
	both(s);
	closesocket(s);
}

CASE(listener)
{
	struct sockaddr_in name;
	SOCKET s = listening(&name), control;

	both(s);
	control = dialled(&name, "drain");
	readable(s);
	both(s);
	closesocket(control);
	closesocket(s);
}

CASE(refused)
{
	SOCKET s = stream();

	nonblocking(s);
	connect(s, NAME(closed_port), sizeof(closed_port));
	exceptional(s);
	both(s);
	closesocket(s);
}

CASE(refused_polled)
{
	SOCKET s = stream();

	nonblocking(s);
	connect(s, NAME(closed_port), sizeof(closed_port));
	polled("poll", s, POLLOUT, 2000);
	closesocket(s);
}

CASE(connecting)
{
	struct sockaddr_in name = peer;
	SOCKET s = stream();

	name.sin_addr.s_addr = inet_addr("10.97.0.1");
	nonblocking(s);
	connect(s, NAME(name), sizeof(name));
	both(s);
	closesocket(s);
}

CASE(full_connection)
{
	SOCKET s = talk("sleep:5000 drain");
	static char bytes[65536];
	int rounds = 0;

	nonblocking(s);
	while (send(s, bytes, sizeof(bytes), 0) > 0 && ++rounds < 1000)
		;
	both(s);
	closesocket(s);
}

CASE(connected_datagram_without_a_port)
{
	SOCKET s = datagram();

	connect(s, NAME(closed_port), sizeof(closed_port));
	send(s, "a", 1, 0);
	readable(s);
	both(s);
	closesocket(s);
}

CASE(select_waits)
{
	SOCKET s = talk("sleep:50 send:1 drain");

	chosen("select", s, READ_SET, 3000);
	closesocket(s);
}

CASE(select_times_out)
{
	SOCKET s = talk("drain");
	DWORD begin = GetTickCount();

	chosen("select", s, READ_SET | EXCEPTION_SET, 100);
	say("waited=%d", GetTickCount() - begin >= 80);
	closesocket(s);
}

CASE(select_of_nothing)
{
	struct timeval time = { 0, 1000 }, odd = { -1, 0 };
	SOCKET s = stream();
	fd_set none, one;

	FD_ZERO(&none);
	FD_ZERO(&one);
	FD_SET(s, &one);
	NUMBER("null", select(0, NULL, NULL, NULL, &time));
	NUMBER("empty", select(0, &none, &none, &none, &time));
	NUMBER("time", select(0, &one, NULL, NULL, &odd));
	closesocket(s);
}

CASE(select_of_no_socket)
{
	struct timeval time = { 0, 1000 };
	SOCKET s = talk("drain");
	fd_set set;

	FD_ZERO(&set);
	FD_SET(s, &set);
	FD_SET((SOCKET)12345, &set);
	NUMBER("select", select(0, &set, NULL, NULL, &time));
	closesocket(s);
}

CASE(select_of_many)
{
	struct timeval time = { 2, 0 };
	SOCKET s[8];
	fd_set in, out;
	int count;

	FD_ZERO(&in);
	FD_ZERO(&out);
	for (int i = 0; i < 8; i++) {
		s[i] = talk(i % 2 ? "send:1 drain" : "drain");
		FD_SET(s[i], &in);
		if (i % 4 == 0)
			FD_SET(s[i], &out);
	}
	for (int i = 1; i < 8; i += 2)
		readable(s[i]);
	NUMBER("select", count = select(0, &in, &out, NULL, &time));
	for (int i = 0; i < 8; i++)
		say("%d%d", FD_ISSET(s[i], &in) != 0, FD_ISSET(s[i], &out) != 0);
	for (int i = 0; i < 8; i++)
		closesocket(s[i]);
}

CASE(select_twice_the_same)
{
	struct timeval time = { 2, 0 };
	SOCKET s = talk("send:1 drain");
	fd_set set = { 2, { s, s } };

	NUMBER("select", select(0, &set, NULL, NULL, &time));
	say("count=%d", set.fd_count);
	closesocket(s);
}

static DWORD CALLBACK closer(void *s)
{
	Sleep(QUIET);
	closesocket((SOCKET)s);
	return 0;
}

CASE(select_of_one_that_is_closed)
{
	SOCKET s = talk("drain");

	CloseHandle(CreateThread(NULL, 0, closer, (void *)s, 0, NULL));
	chosen("select", s, READ_SET, 1000);
}

CASE(poll_of_one_that_is_closed)
{
	SOCKET s = talk("drain");

	CloseHandle(CreateThread(NULL, 0, closer, (void *)s, 0, NULL));
	polled("poll", s, POLLIN, 1000);
}

CASE(poll_of_no_socket)
{
	WSAPOLLFD list[3] = { { 12345, POLLIN, 0 }, { INVALID_SOCKET, POLLIN, 0 }, { 0, POLLIN, 0 } };

	list[2].fd = talk("send:1 drain");
	readable(list[2].fd);
	NUMBER("one", WSAPoll(list, 1, 0));
	say("%x", (unsigned short)list[0].revents);
	NUMBER("poll", WSAPoll(list, 3, 100));
	say("%x %x %x", (unsigned short)list[0].revents, (unsigned short)list[1].revents,
	    (unsigned short)list[2].revents);
	closesocket(list[2].fd);
}

CASE(poll_of_bad_bits)
{
	SOCKET s = talk("drain");

	polled("pri", s, POLLPRI, 0);
	polled("err", s, POLLERR, 0);
	polled("hup", s, POLLHUP, 0);
	polled("nval", s, POLLNVAL, 0);
	polled("norm", s, POLLRDNORM | POLLWRNORM, 0);
	polled("band", s, POLLRDBAND, 0);
	polled("all", s, 0x7fff, 0);
	closesocket(s);
}

CASE(poll_of_nothing)
{
	WSAPOLLFD one = { 0 };

	NUMBER("none", WSAPoll(&one, 0, 10));
	NUMBER("null", WSAPoll(NULL, 1, 10));
}

CASE(poll_waits)
{
	SOCKET s = talk("sleep:50 send:1 drain"), t = talk("drain");

	polled("poll", s, POLLIN, 3000);
	polled("without-end", t, POLLOUT, -1);
	polled("time", t, POLLIN, 50);
	closesocket(s);
	closesocket(t);
}

CASE(poll_of_urgent_data)
{
	SOCKET s = talk("urgent:u go drain");

	exceptional(s);
	polled("in", s, POLLIN, 0);
	polled("band", s, POLLRDBAND, 0);
	closesocket(s);
}
