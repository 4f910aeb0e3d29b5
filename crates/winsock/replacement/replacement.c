/* A DLL of Winsock for a program's folder, in place of the one of Windows: it loads
 * tickwire_winsock.dll from its own folder, and passes each call on to the DLL of Windows, whose
 * functions that library has replaced. So what a program calls is the same code as with the
 * launcher.
 *
 * The library is loaded when this DLL is. The DLL of Windows is loaded at the first call: by then
 * the loader has done its work. An export by the file format itself ("forwarder") could not name a
 * DLL of the same name in another folder.
 *
 * It has no C runtime, and imports kernel32.dll only. The exports, and what jumps to them, are made
 * from the list of the DLL's functions (`xtask windows`, `replacement`):
 *
 *     WINDOWS_NAME   the DLL of Windows, for instance L"ws2_32.dll"
 *     slots          where each function jumps to: at first to code that calls `resolve`
 *     names          the name of each, or an ordinal below 65536
 */
#include <windows.h>

#define LIBRARY L"tickwire_winsock.dll"
#define LONGEST 4096

/* STATUS_ENTRYPOINT_NOT_FOUND: so the loader ends a program that imports what is not there. */
#define NOT_FOUND 0xc0000139u

extern FARPROC slots[];
extern const char *const names[];

static WCHAR path[LONGEST];

/* Appends a text to the path, which is so long. Returns the new length, or 0. */
static unsigned append(unsigned length, const WCHAR *text)
{
	while (*text && length && length + 1 < LONGEST)
		path[length++] = *text++;
	path[length] = 0;
	return *text ? 0 : length;
}

static void say(const char *text)
{
	DWORD written;

	WriteFile(GetStdHandle(STD_ERROR_HANDLE), text, lstrlenA(text), &written, NULL);
}

/* Loads the library from this DLL's folder. Without it the program runs as without this DLL. */
static void load_library(HINSTANCE own)
{
	unsigned length = GetModuleFileNameW(own, path, LONGEST);

	if (length >= LONGEST)
		length = 0;
	while (length && path[length - 1] != '\\')
		length--;
	if (!append(length, LIBRARY) || !LoadLibraryW(path))
		say("tickwire: tickwire_winsock.dll cannot be loaded from the program's folder: the program runs on the"
		    " kernel's network stack\r\n");
}

BOOL WINAPI begin(HINSTANCE own, DWORD reason, void *reserved)
{
	if (reason == DLL_PROCESS_ATTACH)
		load_library(own);
	return TRUE;
}

/* The DLL of Windows. Several threads may ask at a time: each gets the same. */
static HMODULE windows_own(void)
{
	static HMODULE known;
	WCHAR file[MAX_PATH + 32];
	HMODULE module = __atomic_load_n(&known, __ATOMIC_ACQUIRE);

	if (!module) {
		unsigned length = GetSystemDirectoryW(file, MAX_PATH);

		if (length && length < MAX_PATH) {
			file[length] = '\\';
			lstrcpyW(file + length + 1, WINDOWS_NAME);
			module = LoadLibraryW(file);
		}
		__atomic_store_n(&known, module, __ATOMIC_RELEASE);
	}
	return module;
}

/* The function of Windows of this number, to which its slot jumps from now on. */
FARPROC resolve(unsigned number)
{
	DWORD error = GetLastError();
	HMODULE module = windows_own();
	FARPROC function = module ? GetProcAddress(module, names[number]) : NULL;

	if (!function) {
		RaiseException(NOT_FOUND, EXCEPTION_NONCONTINUABLE, 0, NULL);
		ExitProcess(NOT_FOUND);
	}
	__atomic_store_n(&slots[number], function, __ATOMIC_RELEASE);
	SetLastError(error);
	return function;
}

/* What a slot jumps to at first, with the function's number pushed: finds the function and jumps to
 * it, with all arguments as they were. */
__asm__(".globl first_call\n"
	".seh_proc first_call\n"
	"first_call:\n"
	"	push %rcx\n"
	"	.seh_pushreg %rcx\n"
	"	push %rdx\n"
	"	.seh_pushreg %rdx\n"
	"	push %r8\n"
	"	.seh_pushreg %r8\n"
	"	push %r9\n"
	"	.seh_pushreg %r9\n"
	"	sub $0x60, %rsp\n"
	"	.seh_stackalloc 0x60\n"
	"	.seh_endprologue\n"
	"	movups %xmm0, 0x20(%rsp)\n"
	"	movups %xmm1, 0x30(%rsp)\n"
	"	movups %xmm2, 0x40(%rsp)\n"
	"	movups %xmm3, 0x50(%rsp)\n"
	"	mov 0x80(%rsp), %ecx\n"
	"	call resolve\n"
	"	movups 0x20(%rsp), %xmm0\n"
	"	movups 0x30(%rsp), %xmm1\n"
	"	movups 0x40(%rsp), %xmm2\n"
	"	movups 0x50(%rsp), %xmm3\n"
	"	add $0x60, %rsp\n"
	"	pop %r9\n"
	"	pop %r8\n"
	"	pop %rdx\n"
	"	pop %rcx\n"
	"	add $8, %rsp\n"
	"	jmp *%rax\n"
	".seh_endproc\n");
