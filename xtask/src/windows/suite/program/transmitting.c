/* TransmitFile and TransmitPackets. */
#include "suite.h"

#define SUBJECT "extensions"

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
	say_unless_begun("transmit", transmit(s, file, 500, &overlapped, &around, 0));
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
