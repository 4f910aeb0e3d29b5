/* The functions of WinDivert.dll: they check what they are given. */
#include "handle.h"
#include "packet.h"
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <winerror.h>

/* One way for all functions to say how they have ended. */
static BOOL answer(DWORD error)
{
	SetLastError(error);
	return !error;
}

static DWORD error_of(int result)
{
	switch (-result) {
	case EPERM:
	case EACCES:
		return ERROR_ACCESS_DENIED;
	case ENOENT:
	case ENODEV:
		return ERROR_FILE_NOT_FOUND;
	default:
		return ERROR_OPEN_FAILED;
	}
}

HANDLE WINAPI WinDivertOpen(const char *text, int layer, INT16 priority, UINT64 flags)
{
	struct filter_error wrong;
	struct filter *filter = text ? filter_compile(text, &wrong) : NULL;
	HANDLE handle = INVALID_HANDLE_VALUE;
	DWORD error;
	int result;

	if (!filter || layer != LAYER_NETWORK || priority < -PRIORITY_MAX || priority > PRIORITY_MAX ||
	    (flags && flags != FLAGS_OF_COPIES)) {
		filter_free(filter);
		answer(ERROR_INVALID_PARAMETER);
		return handle;
	}
	result = flags ? copies_begin(handles_copy) : host_begin(handles_decide);
	error = result ? error_of(result) : handle_open(filter, priority, flags != 0, &handle);
	/* For tests, which count those that take packets. */
	if (!error && !flags)
		fprintf(stderr, "WinDivert: a handle is opened\n");
	if (error)
		filter_free(filter);
	answer(error);
	return handle;
}

BOOL WINAPI WinDivertRecvEx(HANDLE handle, void *bytes, UINT room, UINT *length, UINT64 flags,
			    struct address *addresses, UINT *size, OVERLAPPED *overlapped)
{
	struct receive *call;
	OVERLAPPED own = { .Internal = STATUS_PENDING };
	DWORD error, received;

	if (flags || !bytes || (size && (!addresses || *size < sizeof(*addresses) ||
					 *size > BATCH_MAX * sizeof(*addresses))))
		return answer(ERROR_INVALID_PARAMETER);
	call = calloc(1, sizeof(*call));
	if (!call)
		return answer(ERROR_NO_SYSTEM_RESOURCES);
	if (!overlapped) {
		own.hEvent = CreateEventW(NULL, TRUE, FALSE, NULL);
	} else if (overlapped->hEvent) {
		ResetEvent(overlapped->hEvent);
	}
	*call = (struct receive){
		.bytes = bytes,
		.room = room,
		.addresses = addresses,
		.addresses_room = size ? *size : sizeof(*addresses),
		.addresses_size = size,
		.overlapped = overlapped ? overlapped : &own,
	};
	call->overlapped->Internal = STATUS_PENDING;
	error = handle_receive(handle, call);
	if (overlapped)
		return answer(error ? error : ERROR_IO_PENDING);
	if (!error && !GetOverlappedResult(handle, &own, &received, TRUE))
		error = GetLastError();
	CloseHandle(own.hEvent);
	if (!error && length)
		*length = received;
	return answer(error);
}

BOOL WINAPI WinDivertRecv(HANDLE handle, void *bytes, UINT room, UINT *length, struct address *address)
{
	return WinDivertRecvEx(handle, bytes, room, length, 0, address, NULL, NULL);
}

/* Injects packets that lie one behind the other. Some errors concern one packet only. */
static DWORD send_all(const uint8_t *bytes, uint32_t room, const struct address *addresses, uint32_t count)
{
	DWORD error = 0;

	for (uint32_t i = 0; i < count; i++) {
		uint32_t length = packet_length(bytes, room);
		DWORD one;

		if (!length)
			return room ? ERROR_INVALID_PARAMETER : ERROR_INSUFFICIENT_BUFFER;
		one = inject(bytes, length, &addresses[i]);
		if (one == ERROR_NO_SYSTEM_RESOURCES)
			return one;
		if (one)
			error = one;
		bytes += length;
		room -= length;
	}
	return error;
}

BOOL WINAPI WinDivertSendEx(HANDLE handle, const void *bytes, UINT room, UINT *length, UINT64 flags,
			    const struct address *addresses, UINT size, OVERLAPPED *overlapped)
{
	DWORD error = handle_may_send(handle);

	/* Nothing here uses overlapped sending. */
	if (flags || overlapped || !bytes || !addresses || size < sizeof(*addresses) ||
	    size > BATCH_MAX * sizeof(*addresses))
		return answer(ERROR_INVALID_PARAMETER);
	if (!error)
		error = send_all(bytes, room, addresses, size / sizeof(*addresses));
	if (!error && length)
		*length = room;
	return answer(error);
}

BOOL WINAPI WinDivertSend(HANDLE handle, const void *bytes, UINT room, UINT *length, const struct address *address)
{
	return WinDivertSendEx(handle, bytes, room, length, 0, address, sizeof(*address), NULL);
}

BOOL WINAPI WinDivertShutdown(HANDLE handle, int how)
{
	return answer(handle_shut_down(handle, how));
}

BOOL WINAPI WinDivertClose(HANDLE handle)
{
	return answer(handle_close(handle));
}

BOOL WINAPI WinDivertSetParam(HANDLE handle, int parameter, UINT64 value)
{
	return answer(handle_set(handle, parameter, value));
}

BOOL WINAPI WinDivertGetParam(HANDLE handle, int parameter, UINT64 *value)
{
	return answer(handle_get(handle, parameter, value));
}

/* There are no compiled filters here: they can be checked only. */
BOOL WINAPI WinDivertHelperCompileFilter(const char *text, int layer, char *object, UINT size, const char **reason,
					 UINT *position)
{
	struct filter_error wrong = { "this layer is not here", 0 };
	struct filter *filter = text && layer == LAYER_NETWORK && !object && !size ? filter_compile(text, &wrong) : NULL;
	BOOL is_right = filter != NULL;

	filter_free(filter);
	if (reason)
		*reason = wrong.reason;
	if (position)
		*position = wrong.position;
	return answer(is_right ? 0 : ERROR_INVALID_PARAMETER);
}

BOOL WINAPI WinDivertHelperEvalFilter(const char *text, const void *packet, UINT length, const struct address *address)
{
	struct filter_error wrong;
	struct packet_view view;
	struct filter *filter = text && address ? filter_compile(text, &wrong) : NULL;
	BOOL takes = FALSE;

	if (!filter || !packet_parse(packet, length, &view)) {
		filter_free(filter);
		return answer(ERROR_INVALID_PARAMETER);
	}
	takes = filter_takes(filter, &view, address);
	filter_free(filter);
	answer(0);
	return takes;
}
