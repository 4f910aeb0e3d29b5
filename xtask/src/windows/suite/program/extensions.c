/* AcceptEx, ConnectEx, DisconnectEx, TransmitFile, TransmitPackets, WSARecvMsg, WSASendMsg. */
#include "suite.h"

#define SUBJECT "extensions"
#define PLACE (sizeof(struct sockaddr_in) + 16)

static char room[8192];

static void begun(const char *what, BOOL is_good)
{
	say_success(what, is_good);
}

#define BEGUN(what, call) (WSASetLastError(0), begun(what, call))

static BOOL accept_ex(SOCKET listener, SOCKET s, DWORD data, OVERLAPPED *overlapped)
{
	DWORD count = 0;

	return EXTENSION(LPFN_ACCEPTEX, listener, WSAID_ACCEPTEX)(listener, s, room, data, PLACE, PLACE, &count,
								  overlapped);
}

static void names(DWORD data, int port)
{
	struct sockaddr *local = NULL, *remote = NULL;
	int local_length = 0, remote_length = 0;
	SOCKET s = stream();

	EXTENSION(LPFN_GETACCEPTEXSOCKADDRS, s, WSAID_GETACCEPTEXSOCKADDRS)
	(room, data, PLACE, PLACE, &local, &local_length, &remote, &remote_length);
	say_name("local", local, local_length, port);
	say_name("remote", remote, remote_length, 0);
	closesocket(s);
}

CASE(accept)
{
	struct sockaddr_in name;
	SOCKET l = listening(&name), s = stream(), control;
	OVERLAPPED overlapped = with_event();
	int length = sizeof(name), port = ntohs(name.sin_port);

	BEGUN("accept", accept_ex(l, s, 0, &overlapped));
	control = dialled(&name, "send:5 drain tell");
	finished("done", l, &overlapped);
	names(0, port);
	OKAY("context", setsockopt(s, SOL_SOCKET, SO_UPDATE_ACCEPT_CONTEXT, (char *)&l, sizeof(l)));
	OKAY("peer", getpeername(s, NAME(name), &length));
	NUMBER("recv", recv(s, room, 5, MSG_WAITALL));
	OKAY("shutdown", shutdown(s, SD_SEND));
	closesocket(s);
	heard(control);
	closesocket(control);
	closesocket(l);
}

CASE(accept_with_data)
{
	struct sockaddr_in name;
	SOCKET l = listening(&name), s = stream(), control;
	OVERLAPPED overlapped = with_event();

	BEGUN("accept", accept_ex(l, s, 100, &overlapped));
	control = dialled(&name, "sleep:40 send:5 drain");
	finished("done", l, &overlapped);
	say_bytes(room, 5);
	names(100, ntohs(name.sin_port));
	closesocket(s);
	closesocket(control);
	closesocket(l);
}

CASE(accept_of_one_that_is_there)
{
	struct sockaddr_in name;
	SOCKET l = listening(&name), s = stream(), control = dialled(&name, "drain");
	OVERLAPPED overlapped = with_event();

	readable(l);
	accept_ex(l, s, 0, &overlapped);
	finished("done", l, &overlapped);
	closesocket(s);
	closesocket(control);
	closesocket(l);
}

CASE(accept_and_the_end)
{
	struct sockaddr_in name;
	SOCKET l = listening(&name), s = stream(), control;
	OVERLAPPED overlapped = with_event();

	BEGUN("accept", accept_ex(l, s, 100, &overlapped));
	control = dialled(&name, "sleep:40 fin drain");
	finished("done", l, &overlapped);
	closesocket(s);
	closesocket(control);
	closesocket(l);
}

CASE(accept_cancelled)
{
	struct sockaddr_in name;
	SOCKET l = listening(&name), s = stream(), control;
	OVERLAPPED overlapped = with_event();

	BEGUN("accept", accept_ex(l, s, 0, &overlapped));
	TRUTH("cancel", CancelIoEx((HANDLE)l, &overlapped));
	finished("done", l, &overlapped);
	control = dialled(&name, "drain");
	OKAY("accept", accept(l, NULL, NULL));
	closesocket(s);
	closesocket(control);
	closesocket(l);
}

CASE(accept_and_the_listener_is_closed)
{
	struct sockaddr_in name;
	SOCKET l = listening(&name), s = stream();
	OVERLAPPED overlapped = with_event();

	BEGUN("accept", accept_ex(l, s, 0, &overlapped));
	OKAY("close", closesocket(l));
	say("told=%d", WaitForSingleObject(overlapped.hEvent, PATIENCE_MS) == WAIT_OBJECT_0);
	say("status=%lx", (unsigned long)overlapped.Internal);
	closesocket(s);
}

/* Whether a request has ended, and not well. (With which status is not documented.) */
static void given_up(OVERLAPPED *overlapped)
{
	int has_ended = WaitForSingleObject(overlapped->hEvent, PATIENCE_MS) == WAIT_OBJECT_0;

	say("told=%d failed=%d", has_ended, (LONG)overlapped->Internal < 0);
}

CASE(accept_and_the_socket_is_closed)
{
	struct sockaddr_in name;
	SOCKET l = listening(&name), s = stream(), t = stream();
	OVERLAPPED first = with_event(), second = with_event();

	BEGUN("first", accept_ex(l, s, 0, &first));
	BEGUN("second", accept_ex(l, t, 0, &second));
	closesocket(t);
	given_up(&second);
	say("first=%lx", (unsigned long)first.Internal);
	closesocket(s);
	closesocket(l);
}

/* A peer that connects and says nothing is got rid of. */
CASE(accept_and_the_silent_one_is_closed)
{
	struct sockaddr_in name;
	SOCKET l = listening(&name), s = stream(), control;
	OVERLAPPED overlapped = with_event();
	DWORD seconds = -1;
	int length = sizeof(seconds);

	BEGUN("accept", accept_ex(l, s, 100, &overlapped));
	control = dialled(&name, "drain tell");
	for (int i = 0; i < 200 && seconds == (DWORD)-1; i++) {
		Sleep(10);
		getsockopt(s, SOL_SOCKET, SO_CONNECT_TIME, (char *)&seconds, &length);
	}
	say("connected=%d", seconds != (DWORD)-1);
	closesocket(s);
	given_up(&overlapped);
	heard(control);
	closesocket(control);
	closesocket(l);
}

CASE(accept_before_the_context)
{
	struct sockaddr_in name;
	SOCKET l = listening(&name), s = stream(), control;
	OVERLAPPED overlapped = with_event();
	int length = sizeof(name);

	accept_ex(l, s, 0, &overlapped);
	control = dialled(&name, "send:3 drain");
	finished("done", l, &overlapped);
	NUMBER("recv", recv(s, room, 3, MSG_WAITALL));
	NUMBER("send", send(s, "abc", 3, 0));
	OKAY("name", getsockname(s, NAME(name), &length));
	closesocket(s);
	closesocket(control);
	closesocket(l);
}

CASE(accept_wrongly)
{
	struct sockaddr_in name;
	SOCKET l = listening(&name), s = stream(), c = talk("drain"), u = datagram();
	OVERLAPPED overlapped = with_event();
	DWORD count;
	LPFN_ACCEPTEX function = EXTENSION(LPFN_ACCEPTEX, l, WSAID_ACCEPTEX);

	BEGUN("not-listening", function(c, s, room, 0, PLACE, PLACE, &count, &overlapped));
	BEGUN("connected", function(l, c, room, 0, PLACE, PLACE, &count, &overlapped));
	BEGUN("datagram", function(u, s, room, 0, PLACE, PLACE, &count, &overlapped));
	BEGUN("no-socket", function(l, 12345, room, 0, PLACE, PLACE, &count, &overlapped));
	BEGUN("no-listener", function(12345, s, room, 0, PLACE, PLACE, &count, &overlapped));
	BEGUN("no-overlapped", function(l, s, room, 0, PLACE, PLACE, &count, NULL));
	BEGUN("little", function(l, s, room, 0, 8, PLACE, &count, &overlapped));
	closesocket(s);
	closesocket(c);
	closesocket(u);
	closesocket(l);
}

CASE(accept_by_a_port)
{
	struct sockaddr_in name;
	SOCKET l = listening(&name), s = stream(), control;
	HANDLE port = CreateIoCompletionPort((HANDLE)l, NULL, 9, 0);
	OVERLAPPED overlapped = { 0 };

	BEGUN("accept", accept_ex(l, s, 0, &overlapped));
	control = dialled(&name, "drain");
	taken("taken", port, &overlapped, 9);
	closesocket(s);
	closesocket(control);
	closesocket(l);
	CloseHandle(port);
}

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

/* What is connected at once, or later, is connected. */
static void connected(const char *what, BOOL is_good)
{
	if (!is_good && WSAGetLastError() != WSA_IO_PENDING)
		say_success(what, 0);
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

	connected("connect", connect_ex(s, &peer, NULL, &overlapped));
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

	connected("connect", connect_ex(s, &peer, "send:4 drain\n", &overlapped));
	finished("done", s, &overlapped);
	NUMBER("recv", recv(s, room, 4, MSG_WAITALL));
	closesocket(s);
}

CASE(connect_refused)
{
	SOCKET s = bound_stream();
	OVERLAPPED overlapped = with_event();

	BEGUN("connect", connect_ex(s, &closed_port, NULL, &overlapped));
	refusal(s, &overlapped);
	say("status=%lx", (unsigned long)overlapped.Internal);
	closesocket(s);
}

CASE(connect_refused_by_a_port)
{
	SOCKET s = bound_stream();
	HANDLE port = CreateIoCompletionPort((HANDLE)s, NULL, 9, 0);
	OVERLAPPED overlapped = { 0 };

	BEGUN("connect", connect_ex(s, &closed_port, NULL, &overlapped));
	taken("refused", port, &overlapped, 9);
	closesocket(s);
	CloseHandle(port);
}

CASE(connect_unbound)
{
	SOCKET s = stream();
	OVERLAPPED overlapped = with_event();

	BEGUN("connect", connect_ex(s, &peer, NULL, &overlapped));
	closesocket(s);
}

CASE(connect_twice)
{
	SOCKET s = bound_stream();
	OVERLAPPED overlapped = with_event();

	connected("connect", connect_ex(s, &peer, NULL, &overlapped));
	finished("done", s, &overlapped);
	BEGUN("again", connect_ex(s, &peer, NULL, &overlapped));
	closesocket(s);
}

CASE(connect_wrongly)
{
	struct sockaddr_in name;
	SOCKET s = bound_stream(), u = bound_datagram(&name), l = listening(&name);
	OVERLAPPED overlapped = with_event();

	BEGUN("datagram", connect_ex(u, &peer, NULL, &overlapped));
	BEGUN("listener", connect_ex(l, &peer, NULL, &overlapped));
	BEGUN("no-overlapped", connect_ex(s, &peer, NULL, NULL));
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
	BEGUN("connect", connect_ex(s, &name, NULL, &overlapped));
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
	BEGUN("connect", connect_ex(s, &name, NULL, &overlapped));
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

	connected("disconnect", disconnect_ex(s, &overlapped, 0));
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

static HANDLE file_of(int size)
{
	char folder[MAX_PATH], path[MAX_PATH];
	HANDLE file;
	DWORD count;

	GetTempPathA(sizeof(folder), folder);
	GetTempFileNameA(folder, "tw", 0, path);
	file = CreateFileA(path, GENERIC_READ | GENERIC_WRITE, 0, NULL, CREATE_ALWAYS, FILE_FLAG_DELETE_ON_CLOSE, NULL);
	for (int at = 0; at < size; at += 26)
		WriteFile(file, "abcdefghijklmnopqrstuvwxyz", size - at < 26 ? size - at : 26, &count, NULL);
	SetFilePointer(file, 0, NULL, FILE_BEGIN);
	return file;
}

static BOOL transmit(SOCKET s, HANDLE file, DWORD size, OVERLAPPED *overlapped, TRANSMIT_FILE_BUFFERS *around,
		     DWORD flags)
{
	return EXTENSION(LPFN_TRANSMITFILE, s, WSAID_TRANSMITFILE)(s, file, size, 0, overlapped, around, flags);
}

CASE(transmit_file)
{
	SOCKET control, s = accepted("drain tell", &control);
	HANDLE file = file_of(1000);

	TRUTH("transmit", transmit(s, file, 0, NULL, NULL, 0));
	OKAY("shutdown", shutdown(s, SD_SEND));
	heard(control);
	CloseHandle(file);
	closesocket(control);
	closesocket(s);
}

CASE(transmit_file_overlapped)
{
	SOCKET control, s = accepted("drain tell", &control);
	TRANSMIT_FILE_BUFFERS around = { "head", 4, "tail", 4 };
	OVERLAPPED overlapped = with_event();
	HANDLE file = file_of(1000);

	overlapped.Offset = 100;
	connected("transmit", transmit(s, file, 500, &overlapped, &around, 0));
	finished("done", s, &overlapped);
	OKAY("shutdown", shutdown(s, SD_SEND));
	heard(control);
	CloseHandle(file);
	closesocket(control);
	closesocket(s);
}

CASE(transmit_without_a_file)
{
	SOCKET control, s = accepted("drain tell", &control);
	TRANSMIT_FILE_BUFFERS around = { "head", 4, NULL, 0 };

	TRUTH("transmit", transmit(s, NULL, 0, NULL, &around, 0));
	TRUTH("nothing", transmit(s, NULL, 0, NULL, NULL, 0));
	OKAY("shutdown", shutdown(s, SD_SEND));
	heard(control);
	closesocket(control);
	closesocket(s);
}

CASE(transmit_and_disconnect)
{
	SOCKET control, s = accepted("drain tell", &control);
	HANDLE file = file_of(100);

	TRUTH("transmit", transmit(s, file, 0, NULL, NULL, TF_DISCONNECT));
	heard(control);
	CloseHandle(file);
	closesocket(control);
	closesocket(s);
}

CASE(transmit_wrongly)
{
	struct sockaddr_in name;
	SOCKET s = stream(), u = bound_datagram(&name);
	HANDLE file = file_of(10);

	TRUTH("unconnected", transmit(s, file, 0, NULL, NULL, 0));
	TRUTH("datagram", transmit(u, file, 0, NULL, NULL, 0));
	CloseHandle(file);
	closesocket(s);
	closesocket(u);
}

CASE(transmit_packets)
{
	TRANSMIT_PACKETS_ELEMENT elements[2] = { { .dwElFlags = TP_ELEMENT_MEMORY, .cLength = 3, .pBuffer = "abc" },
						 { .dwElFlags = TP_ELEMENT_MEMORY, .cLength = 2, .pBuffer = "de" } };
	SOCKET control, s = accepted("drain tell", &control);
	LPFN_TRANSMITPACKETS function = NULL;
	GUID id = WSAID_TRANSMITPACKETS;
	DWORD size;

	OKAY("function", WSAIoctl(s, SIO_GET_EXTENSION_FUNCTION_POINTER, &id, sizeof(id), &function, sizeof(function),
				  &size, NULL, NULL));
	if (function)
		TRUTH("transmit", function(s, elements, 2, 0, NULL, 0));
	shutdown(s, SD_SEND);
	heard(control);
	closesocket(control);
	closesocket(s);
}

CASE(receive_a_message)
{
	struct sockaddr_in name, from = { 0 };
	SOCKET s = bound_datagram(&name);
	WSABUF part = { 9, room };
	char control[128];
	WSAMSG message = { NAME(from), sizeof(from), &part, 1, { sizeof(control), control }, 0 };
	DWORD count = 77;

	ask(s, "size:5");
	OKAY("recv", EXTENSION(LPFN_WSARECVMSG, s, WSAID_WSARECVMSG)(s, &message, &count, NULL, NULL));
	say("count=%lu flags=%lx control=%lu", (unsigned long)count, (unsigned long)message.dwFlags,
	    (unsigned long)message.Control.len);
	say_name("from", &from, message.namelen, ntohs(peer.sin_port));
	closesocket(s);
}

CASE(receive_a_message_that_is_cut)
{
	struct sockaddr_in name, from = { 0 };
	SOCKET s = bound_datagram(&name);
	WSABUF part = { 3, room };
	WSAMSG message = { NAME(from), sizeof(from), &part, 1, { 0, NULL }, 0 };
	DWORD count = 77;

	ask(s, "size:5");
	OKAY("recv", EXTENSION(LPFN_WSARECVMSG, s, WSAID_WSARECVMSG)(s, &message, &count, NULL, NULL));
	say("count=%lu flags=%lx", (unsigned long)count, (unsigned long)message.dwFlags);
	closesocket(s);
}

CASE(receive_a_message_overlapped)
{
	struct sockaddr_in name, from = { 0 };
	SOCKET s = bound_datagram(&name);
	WSABUF part = { 9, room };
	WSAMSG message = { NAME(from), sizeof(from), &part, 1, { 0, NULL }, 0 };
	OVERLAPPED overlapped = with_event();

	OKAY("recv", EXTENSION(LPFN_WSARECVMSG, s, WSAID_WSARECVMSG)(s, &message, NULL, &overlapped, NULL));
	ask(s, "size:5");
	finished("done", s, &overlapped);
	say_name("from", &from, message.namelen, ntohs(peer.sin_port));
	closesocket(s);
}

CASE(receive_a_message_of_a_stream)
{
	SOCKET s = talk("send:5 drain");
	WSABUF part = { 9, room };
	WSAMSG message = { NULL, 0, &part, 1, { 0, NULL }, 0 };
	DWORD count = 77;

	readable(s);
	OKAY("recv", EXTENSION(LPFN_WSARECVMSG, s, WSAID_WSARECVMSG)(s, &message, &count, NULL, NULL));
	closesocket(s);
}

CASE(packet_information)
{
	struct sockaddr_in name, from = { 0 };
	SOCKET s = bound_datagram(&name);
	WSABUF part = { 9, room };
	char control[128] = "";
	WSAMSG message = { NAME(from), sizeof(from), &part, 1, { sizeof(control), control }, 0 };
	WSACMSGHDR *header = (void *)control;
	DWORD count = 77;

	OKAY("set", setsockopt(s, IPPROTO_IP, IP_PKTINFO, (char *)number(1), sizeof(int)));
	ask(s, "size:5");
	OKAY("recv", EXTENSION(LPFN_WSARECVMSG, s, WSAID_WSARECVMSG)(s, &message, &count, NULL, NULL));
	say("count=%lu control=%lu level=%d type=%d", (unsigned long)count, (unsigned long)message.Control.len,
	    header->cmsg_level, header->cmsg_type);
	closesocket(s);
}

CASE(send_a_message)
{
	struct sockaddr_in name;
	SOCKET s = bound_datagram(&name);
	WSABUF parts[] = { { 1, "a" }, { 2, "bc" } };
	WSAMSG message = { NAME(peer), sizeof(peer), parts, 2, { 0, NULL }, 0 };
	LPFN_WSASENDMSG function = NULL;
	GUID id = WSAID_WSASENDMSG;
	DWORD size, count = 77;

	OKAY("function", WSAIoctl(s, SIO_GET_EXTENSION_FUNCTION_POINTER, &id, sizeof(id), &function, sizeof(function),
				  &size, NULL, NULL));
	if (function) {
		OKAY("send", function(s, &message, 0, &count, NULL, NULL));
		say("count=%lu", (unsigned long)count);
		NUMBER("recv", recv(s, room, 9, 0));
	}
	closesocket(s);
}
