/* ZeroMQ: request and reply. */
#include "trips.h"
#include <string.h>
#include <zmq.h>

enum { SIZE = 64 };

static void fail(const char *what) {
    fprintf(stderr, "%s: %s\n", what, zmq_strerror(zmq_errno()));
    exit(1);
}

static void serve(void *context, const char *endpoint) {
    char message[SIZE];
    void *socket = zmq_socket(context, ZMQ_REP);
    if (zmq_bind(socket, endpoint)) fail("bind");
    for (;;) {
        int length = zmq_recv(socket, message, SIZE, 0);
        if (length < 0 || zmq_send(socket, message, (size_t)length, 0) < 0) fail("reply");
    }
}

static void trip(void *socket) {
    char message[SIZE] = {0};
    if (zmq_send(socket, message, SIZE, 0) != SIZE || zmq_recv(socket, message, SIZE, 0) != SIZE) fail("request");
}

int main(int count, char **arguments) {
    char endpoint[100];
    int patience_ms = 5000;
    if (count < 4) return 2;
    snprintf(endpoint, sizeof endpoint, "tcp://%s:%s", arguments[2], arguments[3]);
    void *context = zmq_ctx_new();
    if (!strcmp(arguments[1], "serve")) serve(context, endpoint);
    if (count < 5) return 2;
    void *socket = zmq_socket(context, ZMQ_REQ);
    zmq_setsockopt(socket, ZMQ_RCVTIMEO, &patience_ms, sizeof patience_ms);
    if (zmq_connect(socket, endpoint)) fail("connect");
    trips_measure(atof(arguments[4]), trip, socket);
    return 0;
}
