/*
 * Prints the processes with a name, and how many handles each has:
 *
 *     handles NAME.exe
 */
#include "common.h"
#include "handles.h"
#include <tlhelp32.h>

int main(int count, char **arguments)
{
	PROCESSENTRY32 process = { .dwSize = sizeof(process) };
	HANDLE all;

	if (count != 2)
		return 2;
	all = CreateToolhelp32Snapshot(TH32CS_SNAPPROCESS, 0);
	for (BOOL is_one = Process32First(all, &process); is_one; is_one = Process32Next(all, &process))
		if (!strcmp(process.szExeFile, arguments[1]))
			printf("process=%lu handles=%d\n", process.th32ProcessID, count_handles(process.th32ProcessID));
	CloseHandle(all);
	return 0;
}
