/* An old program: it gets Winsock's functions by their ordinals, from wsock32.dll, which it has
 * loaded by its name.
 *
 *     by_ordinal ADDRESS PORT     with an echo of TCP there
 *
 * It also compares ordinals with names, in both DLLs. It knows nothing of Tickwire.
 */
#include "common.h"

#define ORDINAL(number) ((const char *)(ULONG_PTR)(number))

static void compare(const char *library)
{
	static const struct {
		const char *name;
		int number;
	} both[] = {
		{ "accept", 1 }, { "closesocket", 3 }, { "recv", 16 }, { "select", 18 }, { "socket", 23 },
		{ "gethostbyname", 52 }, { "WSAGetLastError", 111 }, { "WSAStartup", 115 }, { "__WSAFDIsSet", 151 },
	};
	HMODULE module = LoadLibraryA(library);

	for (unsigned i = 0; i < sizeof(both) / sizeof(*both); i++) {
		FARPROC by_name = GetProcAddress(module, both[i].name);

		if (!by_name || by_name != GetProcAddress(module, ORDINAL(both[i].number))) {
			printf("%s of %s\n", both[i].name, library);
			exit(1);
		}
	}
}

int main(int count, char **arguments)
{
	struct sockaddr_in there = { .sin_family = AF_INET };
	HMODULE wsock32 = LoadLibraryA("wsock32.dll"), ws2_32 = LoadLibraryA("ws2_32.dll");
	SOCKET (WINAPI *open)(int, int, int) = (void *)GetProcAddress(wsock32, ORDINAL(23));
	int (WINAPI *reach)(SOCKET, const void *, int) = (void *)GetProcAddress(wsock32, ORDINAL(4));
	int (WINAPI *take)(SOCKET, char *, int, int) = (void *)GetProcAddress(wsock32, ORDINAL(16));
	int (WINAPI *give)(SOCKET, const char *, int, int) = (void *)GetProcAddress(wsock32, ORDINAL(19));
	int (WINAPI *shut)(SOCKET) = (void *)GetProcAddress(wsock32, ORDINAL(3));
	int (WINAPI *start)(WORD, WSADATA *) = (void *)GetProcAddress(wsock32, ORDINAL(115));
	/* Of both DLLs, two ordinals are different functions. */
	int (WINAPI *control)(SOCKET, long, u_long *) = (void *)GetProcAddress(wsock32, ORDINAL(12));
	ULONG (WINAPI *address)(const char *) = (void *)GetProcAddress(ws2_32, ORDINAL(11));
	u_long waiting = 0;
	char bytes[4];
	WSADATA data;
	SOCKET s;

	if (count != 3)
		return 2;
	compare("wsock32.dll");
	compare("ws2_32.dll");
	there.sin_addr.s_addr = address(arguments[1]);
	there.sin_port = (USHORT)(atoi(arguments[2]) << 8 | atoi(arguments[2]) >> 8);
	if (start(0x101, &data))
		return 1;
	s = open(AF_INET, SOCK_STREAM, 0);
	if (reach(s, &there, sizeof(there)) || give(s, "tick", 4, 0) != 4 || take(s, bytes, 4, 0) != 4)
		return 1;
	if (memcmp(bytes, "tick", 4) || control(s, FIONREAD, &waiting) || waiting)
		return 1;
	shut(s);
	printf("done\n");
	return 0;
}
