/* The options of sockets: default values, what comes back after one was set, wrong lengths. */
#include "suite.h"

#define SUBJECT "options"

struct option {
	const char *name;
	int level, number, value;
	/* What differs from host to host is not said. */
	int is_hidden;
};

/* Which kinds of sockets, in turn: not connected, and connected or bound. */
static const struct option stream_options[] = {
	{ "SO_DEBUG", SOL_SOCKET, SO_DEBUG, 1 },
	{ "SO_ACCEPTCONN", SOL_SOCKET, SO_ACCEPTCONN, 1 },
	{ "SO_REUSEADDR", SOL_SOCKET, SO_REUSEADDR, 1 },
	{ "SO_KEEPALIVE", SOL_SOCKET, SO_KEEPALIVE, 1 },
	{ "SO_DONTROUTE", SOL_SOCKET, SO_DONTROUTE, 1 },
	{ "SO_BROADCAST", SOL_SOCKET, SO_BROADCAST, 1 },
	{ "SO_OOBINLINE", SOL_SOCKET, SO_OOBINLINE, 1 },
	{ "SO_DONTLINGER", SOL_SOCKET, SO_DONTLINGER, 1 },
	{ "SO_EXCLUSIVEADDRUSE", SOL_SOCKET, SO_EXCLUSIVEADDRUSE, 1 },
	{ "SO_SNDBUF", SOL_SOCKET, SO_SNDBUF, 100000, 1 },
	{ "SO_RCVBUF", SOL_SOCKET, SO_RCVBUF, 100000, 1 },
	{ "SO_SNDBUF_zero", SOL_SOCKET, SO_SNDBUF, 0, 1 },
	{ "SO_RCVBUF_zero", SOL_SOCKET, SO_RCVBUF, 0, 1 },
	{ "SO_SNDLOWAT", SOL_SOCKET, SO_SNDLOWAT, 1 },
	{ "SO_RCVLOWAT", SOL_SOCKET, SO_RCVLOWAT, 1 },
	{ "SO_SNDTIMEO", SOL_SOCKET, SO_SNDTIMEO, 1500 },
	{ "SO_RCVTIMEO", SOL_SOCKET, SO_RCVTIMEO, 1500 },
	{ "SO_ERROR", SOL_SOCKET, SO_ERROR, 0 },
	{ "SO_TYPE", SOL_SOCKET, SO_TYPE, 1 },
	{ "SO_MAX_MSG_SIZE", SOL_SOCKET, SO_MAX_MSG_SIZE, 1 },
	{ "SO_CONDITIONAL_ACCEPT", SOL_SOCKET, SO_CONDITIONAL_ACCEPT, 1 },
	{ "SO_PAUSE_ACCEPT", SOL_SOCKET, 0x3003, 1 },
	{ "SO_RANDOMIZE_PORT", SOL_SOCKET, 0x3005, 1 },
	{ "SO_PORT_SCALABILITY", SOL_SOCKET, 0x3006, 1 },
	{ "SO_GROUP_PRIORITY", SOL_SOCKET, SO_GROUP_PRIORITY, 1 },
	{ "SO_OPENTYPE", SOL_SOCKET, SO_OPENTYPE, 0 },
	{ "SO_UPDATE_CONNECT_CONTEXT", SOL_SOCKET, SO_UPDATE_CONNECT_CONTEXT, 0 },
	{ "SO_UPDATE_ACCEPT_CONTEXT", SOL_SOCKET, SO_UPDATE_ACCEPT_CONTEXT, 0 },
	{ "SO_unknown", SOL_SOCKET, 0x7777, 1 },
	{ "TCP_NODELAY", IPPROTO_TCP, TCP_NODELAY, 1 },
	{ "TCP_KEEPIDLE", IPPROTO_TCP, 3, 60 },
	{ "TCP_KEEPINTVL", IPPROTO_TCP, 17, 5 },
	{ "TCP_KEEPCNT", IPPROTO_TCP, 16, 4 },
	{ "TCP_MAXSEG", IPPROTO_TCP, 4, 1000, 1 },
	{ "TCP_MAXRT", IPPROTO_TCP, 5, 30 },
	{ "TCP_EXPEDITED_1122", IPPROTO_TCP, TCP_EXPEDITED_1122, 1 },
	{ "TCP_FASTOPEN", IPPROTO_TCP, 15, 1 },
	{ "TCP_TIMESTAMPS", IPPROTO_TCP, 10, 1 },
	{ "TCP_unknown", IPPROTO_TCP, 0x7777, 1 },
	{ "IP_TTL", IPPROTO_IP, IP_TTL, 33 },
	{ "IP_TTL_too_much", IPPROTO_IP, IP_TTL, 300 },
	{ "IP_TOS", IPPROTO_IP, IP_TOS, 16 },
	{ "IP_DONTFRAGMENT", IPPROTO_IP, IP_DONTFRAGMENT, 1 },
	{ "IP_HDRINCL", IPPROTO_IP, IP_HDRINCL, 1 },
	{ "IP_UNICAST_IF", IPPROTO_IP, 31, 0 },
	{ "IP_unknown", IPPROTO_IP, 0x7777, 1 },
	{ "level_unknown", 0x7777, 1, 1 },
};

static const struct option datagram_options[] = {
	{ "SO_REUSEADDR", SOL_SOCKET, SO_REUSEADDR, 1 },
	{ "SO_BROADCAST", SOL_SOCKET, SO_BROADCAST, 1 },
	{ "SO_DONTROUTE", SOL_SOCKET, SO_DONTROUTE, 1 },
	{ "SO_KEEPALIVE", SOL_SOCKET, SO_KEEPALIVE, 1 },
	{ "SO_OOBINLINE", SOL_SOCKET, SO_OOBINLINE, 1 },
	{ "SO_EXCLUSIVEADDRUSE", SOL_SOCKET, SO_EXCLUSIVEADDRUSE, 1 },
	{ "SO_SNDBUF", SOL_SOCKET, SO_SNDBUF, 100000, 1 },
	{ "SO_RCVBUF", SOL_SOCKET, SO_RCVBUF, 100000, 1 },
	{ "SO_SNDTIMEO", SOL_SOCKET, SO_SNDTIMEO, 1500 },
	{ "SO_RCVTIMEO", SOL_SOCKET, SO_RCVTIMEO, 1500 },
	{ "SO_ERROR", SOL_SOCKET, SO_ERROR, 0 },
	{ "SO_TYPE", SOL_SOCKET, SO_TYPE, 1 },
	{ "SO_MAX_MSG_SIZE", SOL_SOCKET, SO_MAX_MSG_SIZE, 1 },
	{ "TCP_NODELAY", IPPROTO_TCP, TCP_NODELAY, 1 },
	{ "IP_TTL", IPPROTO_IP, IP_TTL, 33 },
	{ "IP_TOS", IPPROTO_IP, IP_TOS, 16 },
	{ "IP_MULTICAST_TTL", IPPROTO_IP, IP_MULTICAST_TTL, 3 },
	{ "IP_MULTICAST_LOOP", IPPROTO_IP, IP_MULTICAST_LOOP, 0 },
	{ "IP_MULTICAST_IF", IPPROTO_IP, IP_MULTICAST_IF, 0 },
	{ "IP_DONTFRAGMENT", IPPROTO_IP, IP_DONTFRAGMENT, 1 },
	{ "IP_PKTINFO", IPPROTO_IP, IP_PKTINFO, 1 },
	{ "IP_RECVTTL", IPPROTO_IP, 21, 1 },
	{ "IP_RECVTOS", IPPROTO_IP, 40, 1 },
	{ "IP_RECEIVE_BROADCAST", IPPROTO_IP, IP_RECEIVE_BROADCAST, 1 },
	{ "UDP_NOCHECKSUM", IPPROTO_UDP, UDP_NOCHECKSUM, 1 },
	{ "UDP_SEND_MSG_SIZE", IPPROTO_UDP, 2, 500 },
	{ "UDP_RECV_MAX_COALESCED_SIZE", IPPROTO_UDP, 3, 1000 },
};

static const struct option v6_options[] = {
	{ "IPV6_V6ONLY", IPPROTO_IPV6, IPV6_V6ONLY, 0 },
	{ "IPV6_UNICAST_HOPS", IPPROTO_IPV6, IPV6_UNICAST_HOPS, 33 },
	{ "IPV6_MULTICAST_HOPS", IPPROTO_IPV6, IPV6_MULTICAST_HOPS, 3 },
	{ "IPV6_MULTICAST_LOOP", IPPROTO_IPV6, IPV6_MULTICAST_LOOP, 0 },
	{ "IPV6_MULTICAST_IF", IPPROTO_IPV6, IPV6_MULTICAST_IF, 0 },
	{ "IPV6_DONTFRAG", IPPROTO_IPV6, IPV6_DONTFRAG, 1 },
	{ "IPV6_PKTINFO", IPPROTO_IPV6, IPV6_PKTINFO, 1 },
	{ "IPV6_HOPLIMIT", IPPROTO_IPV6, IPV6_HOPLIMIT, 1 },
	{ "IPV6_RECVTCLASS", IPPROTO_IPV6, IPV6_RECVTCLASS, 1 },
	{ "IPV6_UNICAST_IF", IPPROTO_IPV6, IPV6_UNICAST_IF, 0 },
	{ "IPV6_PROTECTION_LEVEL", IPPROTO_IPV6, IPV6_PROTECTION_LEVEL, 10 },
	{ "IPV6_unknown", IPPROTO_IPV6, 0x7777, 1 },
};

static void get(const char *what, SOCKET s, const struct option *option, int room)
{
	int value = 0x55555555, length = room;

	WSASetLastError(0);
	if (getsockopt(s, option->level, option->number, (char *)&value, &length))
		say_number(what, -1);
	else if (option->is_hidden)
		say("%s=ok/%d", what, length);
	else
		say("%s=%x/%d", what, value, length);
}

static void examine(SOCKET s, const struct option *option)
{
	get("default", s, option, 4);
	OKAY("set", setsockopt(s, option->level, option->number, (char *)&option->value, sizeof(int)));
	get("then", s, option, 4);
	get("byte", s, option, 1);
	get("none", s, option, 0);
	OKAY("set-byte", setsockopt(s, option->level, option->number, (char *)&option->value, 1));
	OKAY("set-none", setsockopt(s, option->level, option->number, (char *)&option->value, 0));
	OKAY("set-null", setsockopt(s, option->level, option->number, NULL, sizeof(int)));
	get("after", s, option, 4);
}

static void of_fresh_stream(const void *option)
{
	SOCKET s = stream();

	examine(s, option);
	/* It still connects, unless an option is against it. */
	OKAY("connect", connect(s, NAME(peer), sizeof(peer)));
	closesocket(s);
}

static void of_connection(const void *option)
{
	SOCKET s = talk("echo");
	char bytes[4];

	examine(s, option);
	NUMBER("send", send(s, "abc", 3, 0));
	nonblocking(s);
	readable(s);
	NUMBER("recv", recv(s, bytes, 3, 0));
	closesocket(s);
}

static void of_listener(const void *option)
{
	struct sockaddr_in name;
	SOCKET s = listening(&name);

	examine(s, option);
	closesocket(s);
}

static void of_fresh_datagram(const void *option)
{
	SOCKET s = datagram();

	examine(s, option);
	closesocket(s);
}

static void of_bound_datagram(const void *option)
{
	struct sockaddr_in name;
	SOCKET s = bound_datagram(&name);
	char bytes[4];

	examine(s, option);
	nonblocking(s);
	NUMBER("send", sendto(s, "abc", 3, 0, NAME(peer), sizeof(peer)));
	readable(s);
	NUMBER("recv", recv(s, bytes, 3, 0));
	closesocket(s);
}

static void of_v6_datagram(const void *option)
{
	SOCKET s = socket(AF_INET6, SOCK_DGRAM, 0);
	char bytes[4];

	examine(s, option);
	nonblocking(s);
	NUMBER("send", sendto(s, "abc", 3, 0, NAME(peer6), sizeof(peer6)));
	readable(s);
	NUMBER("recv", recv(s, bytes, 3, 0));
	closesocket(s);
}

static void of_v6_connection(const void *option)
{
	SOCKET s = talk6("drain");

	examine(s, option);
	closesocket(s);
}

static void add(const char *kind, const struct option *option, int line, void (*run)(const void *))
{
	struct suite_case *one = calloc(1, sizeof(*one));
	char *name = malloc(64);

	snprintf(name, 64, "%s_%s", kind, option->name);
	*one = (struct suite_case){ SUBJECT, name, __FILE__, line, run, option, NULL };
	add_case(one);
}

#define COUNT(list) (sizeof(list) / sizeof(*list))

__attribute__((constructor)) static void add_options(void)
{
	for (size_t i = 0; i < COUNT(stream_options); i++) {
		add("fresh_stream", stream_options + i, 1, of_fresh_stream);
		add("connection", stream_options + i, 2, of_connection);
		add("listener", stream_options + i, 3, of_listener);
	}
	for (size_t i = 0; i < COUNT(datagram_options); i++) {
		add("fresh_datagram", datagram_options + i, 4, of_fresh_datagram);
		add("bound_datagram", datagram_options + i, 5, of_bound_datagram);
	}
	for (size_t i = 0; i < COUNT(v6_options); i++) {
		add("v6_datagram", v6_options + i, 6, of_v6_datagram);
		add("v6_connection", v6_options + i, 7, of_v6_connection);
	}
}

CASE(linger)
{
	struct linger linger = { 7, 7 };
	SOCKET s = talk("drain");
	int length = sizeof(linger);

	OKAY("get", getsockopt(s, SOL_SOCKET, SO_LINGER, (char *)&linger, &length));
	say("linger=%d/%d/%d", linger.l_onoff, linger.l_linger, length);
	linger = (struct linger){ 1, 5 };
	OKAY("set", setsockopt(s, SOL_SOCKET, SO_LINGER, (char *)&linger, sizeof(linger)));
	linger = (struct linger){ 7, 7 };
	OKAY("get", getsockopt(s, SOL_SOCKET, SO_LINGER, (char *)&linger, &length));
	say("linger=%d/%d", linger.l_onoff, linger.l_linger);
	OKAY("short", setsockopt(s, SOL_SOCKET, SO_LINGER, (char *)&linger, 2));
	length = 2;
	OKAY("short", getsockopt(s, SOL_SOCKET, SO_LINGER, (char *)&linger, &length));
	closesocket(s);
}

CASE(connect_time)
{
	SOCKET s = stream(), c = talk("drain");
	DWORD seconds = 0;
	int length = sizeof(seconds);

	OKAY("fresh", getsockopt(s, SOL_SOCKET, SO_CONNECT_TIME, (char *)&seconds, &length));
	say("seconds=%d", (int)seconds);
	length = sizeof(seconds);
	OKAY("connected", getsockopt(c, SOL_SOCKET, SO_CONNECT_TIME, (char *)&seconds, &length));
	say("few=%d", seconds < 10);
	closesocket(s);
	closesocket(c);
}

static void info(SOCKET s)
{
	WSAPROTOCOL_INFOW info = { 0 };
	int length = sizeof(info);

	OKAY("info", getsockopt(s, SOL_SOCKET, SO_PROTOCOL_INFOW, (char *)&info, &length));
	say("%d/%d/%d/%d", info.iAddressFamily, info.iSocketType, info.iProtocol, length);
}

CASE(protocol_info)
{
	struct sockaddr_in name;
	SOCKET s = talk("drain"), u = bound_datagram(&name);

	info(s);
	info(u);
	closesocket(s);
	closesocket(u);
}

CASE(bsp_state)
{
	char room[256];
	SOCKET s = talk("drain");
	CSADDR_INFO *state = (void *)room;
	int length = sizeof(room);

	OKAY("get", getsockopt(s, SOL_SOCKET, 0x1009, room, &length));
	say("%d/%d", state->iSocketType, state->iProtocol);
	closesocket(s);
}

CASE(membership)
{
	struct ip_mreq group = { .imr_multiaddr.s_addr = inet_addr("224.0.0.77"), .imr_interface = here.sin_addr };
	struct sockaddr_in name;
	SOCKET s = bound_datagram(&name);

	OKAY("add", setsockopt(s, IPPROTO_IP, IP_ADD_MEMBERSHIP, (char *)&group, sizeof(group)));
	OKAY("again", setsockopt(s, IPPROTO_IP, IP_ADD_MEMBERSHIP, (char *)&group, sizeof(group)));
	OKAY("drop", setsockopt(s, IPPROTO_IP, IP_DROP_MEMBERSHIP, (char *)&group, sizeof(group)));
	OKAY("again", setsockopt(s, IPPROTO_IP, IP_DROP_MEMBERSHIP, (char *)&group, sizeof(group)));
	OKAY("short", setsockopt(s, IPPROTO_IP, IP_ADD_MEMBERSHIP, (char *)&group, 3));
	closesocket(s);
}

CASE(buffers_and_data)
{
	SOCKET s = stream();
	static char bytes[200000];

	OKAY("send", setsockopt(s, SOL_SOCKET, SO_SNDBUF, (char *)number(0), sizeof(int)));
	OKAY("recv", setsockopt(s, SOL_SOCKET, SO_RCVBUF, (char *)number(4096), sizeof(int)));
	OKAY("connect", connect(s, NAME(peer), sizeof(peer)));
	send(s, "send:200000 drain\n", 18, 0);
	NUMBER("recv", recv(s, bytes, sizeof(bytes), MSG_WAITALL));
	say_bytes(bytes, sizeof(bytes));
	closesocket(s);
}

CASE(bad_arguments)
{
	SOCKET s = talk("drain");
	int value, length = 4;

	OKAY("get", getsockopt(12345, SOL_SOCKET, SO_TYPE, (char *)&value, &length));
	OKAY("set", setsockopt(12345, SOL_SOCKET, SO_KEEPALIVE, (char *)number(1), 4));
	OKAY("value", getsockopt(s, SOL_SOCKET, SO_TYPE, NULL, &length));
	OKAY("length", getsockopt(s, SOL_SOCKET, SO_TYPE, (char *)&value, NULL));
	OKAY("error", getsockopt(s, SOL_SOCKET, SO_ERROR, NULL, &length));
	OKAY("error-length", getsockopt(s, SOL_SOCKET, SO_ERROR, (char *)&value, NULL));
	length = -1;
	OKAY("negative", getsockopt(s, SOL_SOCKET, SO_TYPE, (char *)&value, &length));
	OKAY("negative", setsockopt(s, SOL_SOCKET, SO_KEEPALIVE, (char *)number(1), -1));
	closesocket(s);
}
