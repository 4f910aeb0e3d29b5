/* See handle.h. */
#include "handle.h"
#include "packet.h"
#include <errno.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>
#include <winerror.h>

/* Handles that are open at a time. */
#define HANDLES 64

/* A packet that was taken. */
struct queued {
	struct queued *next;
	ULONGLONG since_ms;
	struct address address;
	uint32_t length;
	uint8_t bytes[];
};

struct handle {
	HANDLE object; /* an event that nothing uses; NULL: the place is free */
	struct filter *filter;
	int priority;
	int is_for_copies;
	int is_stopped[2]; /* receiving, sending */
	struct queued *first, **last;
	uint32_t count, size;
	struct receive *calls, **last_call;
	uint64_t parameters[PARAM_VERSION_MINOR + 1];
};

/* The documented defaults and limits; the last two cannot be set. */
static const uint64_t defaults[] = { 4096, 2000, 4194304, 2, 2 };
static const uint64_t least[] = { 32, 100, 65535 };
static const uint64_t most[] = { 16384, 16000, 33554432 };

static struct handle handles[HANDLES];
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;

static struct handle *find(HANDLE object)
{
	for (int i = 0; object && i < HANDLES; i++) {
		if (handles[i].object == object)
			return &handles[i];
	}
	return NULL;
}

DWORD handle_open(struct filter *filter, int priority, int is_for_copies, HANDLE *object)
{
	DWORD error = ERROR_TOO_MANY_OPEN_FILES;

	pthread_mutex_lock(&lock);
	for (int i = 0; i < HANDLES; i++) {
		struct handle *handle = &handles[i];

		if (handle->object)
			continue;
		memset(handle, 0, sizeof(*handle));
		handle->object = CreateEventW(NULL, TRUE, FALSE, NULL);
		if (!handle->object)
			break;
		handle->filter = filter;
		handle->priority = priority;
		handle->is_for_copies = handle->is_stopped[1] = is_for_copies;
		handle->last = &handle->first;
		handle->last_call = &handle->calls;
		memcpy(handle->parameters, defaults, sizeof(defaults));
		*object = handle->object;
		error = 0;
		break;
	}
	pthread_mutex_unlock(&lock);
	return error;
}

/* Ends a call. The status is written last. */
static void complete(struct receive *call, NTSTATUS status, uint32_t length)
{
	HANDLE event = call->overlapped->hEvent;

	call->overlapped->InternalHigh = length;
	__atomic_store_n(&call->overlapped->Internal, (ULONG_PTR)status, __ATOMIC_RELEASE);
	if (event)
		SetEvent((HANDLE)((ULONG_PTR)event & ~(ULONG_PTR)1));
	free(call);
}

static struct receive *next_call(struct handle *handle)
{
	struct receive *call = handle->calls;

	if (call) {
		handle->calls = call->next;
		if (!handle->calls)
			handle->last_call = &handle->calls;
	}
	return call;
}

static struct queued *next_packet(struct handle *handle)
{
	struct queued *packet = handle->first;

	handle->first = packet->next;
	if (!handle->first)
		handle->last = &handle->first;
	handle->count--;
	handle->size -= packet->length;
	return packet;
}

/* Fills a call with as many packets as it has room for, at least one. */
static void fill(struct handle *handle, struct receive *call)
{
	uint32_t length = 0, count = 0, most = call->addresses ? call->addresses_room / sizeof(struct address) : 1;
	NTSTATUS status = STATUS_SUCCESS;

	while (handle->first && count < most && count < BATCH_MAX) {
		struct queued *packet = handle->first;
		uint32_t size = packet->length;

		if (size > call->room - length) {
			if (count)
				break;
			size = call->room;
			status = STATUS_BUFFER_TOO_SMALL;
		}
		memcpy(call->bytes + length, packet->bytes, size);
		if (call->addresses)
			call->addresses[count] = packet->address;
		length += size;
		count++;
		free(next_packet(handle));
	}
	if (call->addresses_size)
		*call->addresses_size = count * sizeof(struct address);
	complete(call, status, length);
}

/* Drops what has waited too long, and fills calls. */
static void serve(struct handle *handle)
{
	ULONGLONG now = GetTickCount64();

	while (handle->first && now - handle->first->since_ms > handle->parameters[PARAM_QUEUE_TIME])
		free(next_packet(handle));
	while (handle->first && handle->calls)
		fill(handle, next_call(handle));
	while (!handle->first && handle->is_stopped[0] && handle->calls)
		complete(next_call(handle), STATUS_PIPE_EMPTY, 0);
}

DWORD handle_receive(HANDLE object, struct receive *call)
{
	struct handle *handle;

	pthread_mutex_lock(&lock);
	handle = find(object);
	if (handle) {
		*handle->last_call = call;
		handle->last_call = &call->next;
		serve(handle);
	}
	pthread_mutex_unlock(&lock);
	if (handle)
		return 0;
	free(call);
	return ERROR_INVALID_HANDLE;
}

DWORD handle_may_send(HANDLE object)
{
	struct handle *handle;
	DWORD error = 0;

	pthread_mutex_lock(&lock);
	handle = find(object);
	if (!handle)
		error = ERROR_INVALID_HANDLE;
	else if (handle->is_stopped[1])
		error = ERROR_NO_DATA;
	pthread_mutex_unlock(&lock);
	return error;
}

DWORD handle_shut_down(HANDLE object, int how)
{
	struct handle *handle;

	if (how < SHUTDOWN_RECEIVE || how > (SHUTDOWN_RECEIVE | SHUTDOWN_SEND))
		return ERROR_INVALID_PARAMETER;
	pthread_mutex_lock(&lock);
	handle = find(object);
	if (handle) {
		handle->is_stopped[0] |= how & SHUTDOWN_RECEIVE;
		handle->is_stopped[1] |= how & SHUTDOWN_SEND;
		serve(handle);
	}
	pthread_mutex_unlock(&lock);
	return handle ? 0 : ERROR_INVALID_HANDLE;
}

DWORD handle_close(HANDLE object)
{
	struct handle *handle;

	pthread_mutex_lock(&lock);
	handle = find(object);
	if (handle) {
		while (handle->first) {
			struct queued *packet = next_packet(handle);

			if (!handle->is_for_copies)
				inject(packet->bytes, packet->length, &packet->address);
			free(packet);
		}
		while (handle->calls)
			complete(next_call(handle), STATUS_CANCELLED, 0);
		filter_free(handle->filter);
		CloseHandle(handle->object);
		handle->object = NULL;
	}
	pthread_mutex_unlock(&lock);
	return handle ? 0 : ERROR_INVALID_HANDLE;
}

DWORD handle_set(HANDLE object, enum parameter parameter, uint64_t value)
{
	struct handle *handle;

	if (parameter > PARAM_QUEUE_SIZE || value < least[parameter] || value > most[parameter])
		return ERROR_INVALID_PARAMETER;
	pthread_mutex_lock(&lock);
	handle = find(object);
	if (handle)
		handle->parameters[parameter] = value;
	pthread_mutex_unlock(&lock);
	return handle ? 0 : ERROR_INVALID_HANDLE;
}

DWORD handle_get(HANDLE object, enum parameter parameter, uint64_t *value)
{
	struct handle *handle;

	if (parameter > PARAM_VERSION_MINOR)
		return ERROR_INVALID_PARAMETER;
	pthread_mutex_lock(&lock);
	handle = find(object);
	if (handle)
		*value = handle->parameters[parameter];
	pthread_mutex_unlock(&lock);
	return handle ? 0 : ERROR_INVALID_HANDLE;
}

DWORD inject(const uint8_t *packet, uint32_t length, const struct address *address)
{
	uint8_t *copy = malloc(length);
	DWORD error = 0;
	int result;

	if (!copy)
		return ERROR_NO_SYSTEM_RESOURCES;
	memcpy(copy, packet, length);
	packet_compute_checksums(copy, length, !address->ip_checksum, !address->tcp_checksum, !address->udp_checksum);
	if (address->impostor && !packet_age(copy)) {
		error = ERROR_HOST_UNREACHABLE;
	} else {
		result = address->outbound ? host_send(copy, length, address->interface) : host_give(copy, length);
		if (result)
			error = result == -ENOBUFS || result == -EAGAIN ? ERROR_NO_SYSTEM_RESOURCES : ERROR_GEN_FAILURE;
	}
	free(copy);
	return error;
}

/* The handle of the highest priority that takes a packet. */
static struct handle *taker(const struct packet_view *view, const struct address *address)
{
	struct handle *found = NULL;

	for (int i = 0; i < HANDLES; i++) {
		struct handle *handle = &handles[i];

		if (handle->object && !handle->is_for_copies && !handle->is_stopped[0] && (!found || handle->priority > found->priority) &&
		    filter_takes(handle->filter, view, address))
			found = handle;
	}
	return found;
}

/* Puts a packet into a handle's queue. Returns 0 if there is no memory for it. */
static int put(struct handle *handle, const struct address *address, const uint8_t *bytes, uint32_t length)
{
	struct queued *packet = malloc(sizeof(*packet) + length);

	if (!packet)
		return 0;
	packet->next = NULL;
	packet->since_ms = GetTickCount64();
	packet->address = *address;
	packet->length = length;
	memcpy(packet->bytes, bytes, length);
	*handle->last = packet;
	handle->last = &packet->next;
	handle->count++;
	handle->size += length;
	while (handle->count > handle->parameters[PARAM_QUEUE_LENGTH] ||
	       handle->size > handle->parameters[PARAM_QUEUE_SIZE])
		free(next_packet(handle));
	serve(handle);
	return 1;
}

void handles_copy(const struct copy *copy)
{
	struct address address = {
		.timestamp = copy->timestamp,
		.sniffed = 1,
		.outbound = copy->is_outbound,
		.interface = copy->interface,
		.ip_checksum = 1,
		.udp_checksum = 1,
	};
	struct packet_view view;

	/* (A short one was filled up to what Ethernet sends at least.) */
	if (!packet_parse(copy->bytes, packet_length(copy->bytes, copy->length), &view))
		return;
	address.ipv6 = view.version == 6;
	pthread_mutex_lock(&lock);
	for (int i = 0; i < HANDLES; i++) {
		struct handle *handle = &handles[i];

		if (handle->object && handle->is_for_copies && !handle->is_stopped[0] &&
		    filter_takes(handle->filter, &view, &address))
			put(handle, &address, copy->bytes, view.length);
	}
	pthread_mutex_unlock(&lock);
}

int handles_decide(const struct arrival *arrival)
{
	struct address address = { .interface = arrival->interface };
	struct packet_view view;
	struct handle *handle;
	LARGE_INTEGER now;
	int is_taken;

	QueryPerformanceCounter(&now);
	/* Fragments of IPv6 are not reassembled yet, and then not taken. */
	if (!packet_parse(arrival->bytes, arrival->length, &view) || view.is_fragment)
		return 0;
	address.timestamp = now.QuadPart;
	address.ipv6 = view.version == 6;
	address.ip_checksum = 1;
	/* As the driver has it: set if the network card has not verified it. */
	address.tcp_checksum = address.udp_checksum = !arrival->is_verified;
	pthread_mutex_lock(&lock);
	handle = taker(&view, &address);
	is_taken = handle && put(handle, &address, arrival->bytes, arrival->length);
	pthread_mutex_unlock(&lock);
	return is_taken;
}
