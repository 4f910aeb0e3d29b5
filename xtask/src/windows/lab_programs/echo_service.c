/* A service of Windows that echoes UDP datagrams and TCP streams, by plain calls of Winsock:
 *
 *     echo_service NAME ADDRESS PORT
 *
 * in its command line. It knows nothing of Tickwire.
 */
#include "echo.h"

static const char *name;
static struct sockaddr_in here;
static SERVICE_STATUS_HANDLE manager;
static HANDLE ended;

static void report(DWORD state)
{
	SERVICE_STATUS status = { SERVICE_WIN32_OWN_PROCESS, state, SERVICE_ACCEPT_STOP, 0, 0, 0, 0 };

	SetServiceStatus(manager, &status);
}

static DWORD WINAPI control(DWORD code, DWORD type, void *data, void *context)
{
	if (code == SERVICE_CONTROL_STOP) {
		report(SERVICE_STOP_PENDING);
		SetEvent(ended);
	}
	return NO_ERROR;
}

static DWORD WINAPI serve_thread(void *argument)
{
	serve(&here);
	return 0;
}

static void WINAPI run(DWORD count, char **arguments)
{
	WSADATA data;

	manager = RegisterServiceCtrlHandlerExA(name, control, NULL);
	if (!manager || WSAStartup(0x202, &data))
		fail("the beginning of a service");
	CreateThread(NULL, 0, serve_thread, NULL, 0, NULL);
	report(SERVICE_RUNNING);
	WaitForSingleObject(ended, INFINITE);
	report(SERVICE_STOPPED);
}

int main(int count, char **arguments)
{
	SERVICE_TABLE_ENTRYA table[] = { { "", run }, { NULL, NULL } };

	if (count != 4)
		return 2;
	name = arguments[1];
	here.sin_family = AF_INET;
	here.sin_addr.s_addr = inet_addr(arguments[2]);
	here.sin_port = htons(atoi(arguments[3]));
	ended = CreateEventA(NULL, TRUE, FALSE, NULL);
	if (!StartServiceCtrlDispatcherA(table))
		return 1;
	return 0;
}
