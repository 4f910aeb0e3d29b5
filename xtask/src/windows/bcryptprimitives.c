/*
 * bcryptprimitives.dll as far as the standard libraries of Rust and Go use it. Wine has it from
 * version 9 on.
 */
#include <windows.h>

BOOLEAN NTAPI SystemFunction036(PVOID buffer, ULONG length); /* RtlGenRandom */

__declspec(dllexport) BOOL WINAPI ProcessPrng(BYTE *data, SIZE_T length)
{
	while (length > 0) {
		ULONG part = length > 0x40000000 ? 0x40000000 : (ULONG)length;

		if (!SystemFunction036(data, part))
			return FALSE;
		data += part;
		length -= part;
	}
	return TRUE;
}
