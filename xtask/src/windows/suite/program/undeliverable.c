/* Datagrams to ports that are not there, and to networks without a way. */
#include "suite.h"

#define SUBJECT "datagrams"

static char room[64];

/* Sends to a port where nothing receives; the answer comes some time later. */
static void unreachable(SOCKET s, int is_connected)
{
	if (is_connected)
		NUMBER("send", send(s, "a", 1, 0));
	else
		NUMBER("send", sendto(s, "a", 1, 0, NAME(closed_port), sizeof(closed_port)));
	Sleep(5 * QUIET);
}

CASE(no_port_reported)
{
	struct sockaddr_in name;
	SOCKET s = bound_datagram(&name);

	unreachable(s, 0);
	setsockopt(s, SOL_SOCKET, SO_RCVTIMEO, (char *)number(500), sizeof(int));
	NUMBER("recv", recv(s, room, sizeof(room), 0));
	ask(s, "abc");
	NUMBER("recv", recv(s, room, sizeof(room), 0));
	closesocket(s);
}

CASE(no_port_reported_to_a_connected_one)
{
	SOCKET s = datagram();

	OKAY("connect", connect(s, NAME(closed_port), sizeof(closed_port)));
	setsockopt(s, SOL_SOCKET, SO_RCVTIMEO, (char *)number(500), sizeof(int));
	unreachable(s, 1);
	NUMBER("recv", recv(s, room, sizeof(room), 0));
	NUMBER("recv", recv(s, room, sizeof(room), 0));
	closesocket(s);
}

CASE(no_port_reported_by_sending)
{
	SOCKET s = datagram();

	OKAY("connect", connect(s, NAME(closed_port), sizeof(closed_port)));
	unreachable(s, 1);
	NUMBER("send", send(s, "a", 1, 0));
	closesocket(s);
}

static void unreported(int is_connected)
{
	struct sockaddr_in name;
	SOCKET s = bound_datagram(&name);
	BOOL no = FALSE;
	DWORD size = 0;

	if (is_connected)
		OKAY("connect", connect(s, NAME(closed_port), sizeof(closed_port)));
	OKAY("ioctl", WSAIoctl(s, SIO_UDP_CONNRESET, &no, sizeof(no), NULL, 0, &size, NULL, NULL));
	setsockopt(s, SOL_SOCKET, SO_RCVTIMEO, (char *)number(150), sizeof(int));
	unreachable(s, is_connected);
	NUMBER("recv", recv(s, room, sizeof(room), 0));
	closesocket(s);
}

CASE(no_port_not_reported) { unreported(0); }
CASE(no_port_not_reported_to_a_connected_one) { unreported(1); }

CASE(no_port_as_an_option)
{
	SOCKET s = datagram();
	int error = -1, length = sizeof(error);

	OKAY("connect", connect(s, NAME(closed_port), sizeof(closed_port)));
	unreachable(s, 1);
	OKAY("get", getsockopt(s, SOL_SOCKET, SO_ERROR, (char *)&error, &length));
	say_error("pending", error);
	closesocket(s);
}

static void no_way(const char *address)
{
	struct sockaddr_in name, to = peer;
	SOCKET s = bound_datagram(&name);

	to.sin_addr.s_addr = inet_addr(address);
	NUMBER("send", sendto(s, "a", 1, 0, NAME(to), sizeof(to)));
	setsockopt(s, SOL_SOCKET, SO_RCVTIMEO, (char *)number(200), sizeof(int));
	NUMBER("recv", recv(s, room, sizeof(room), 0));
	closesocket(s);
}

CASE(no_route) { no_way("10.98.0.1"); }
CASE(route_unreachable) { no_way("10.99.0.1"); }
