/* MQTT by libmosquitto: the client publishes to a topic that it has subscribed to, and waits for
   its own message. The broker is mosquitto. */
#include "trips.h"
#include <mosquitto.h>
#include <string.h>

enum { SIZE = 64, TIMEOUT_MS = 5000 };

static int subscribed, arrived;

static void fail(const char *what, int code) {
    fprintf(stderr, "%s: %s\n", what, mosquitto_strerror(code));
    exit(1);
}

static void on_subscribe(struct mosquitto *client, void *context, int id, int count, const int *granted) {
    (void)client, (void)context, (void)id, (void)count, (void)granted;
    subscribed = 1;
}

static void on_message(struct mosquitto *client, void *context, const struct mosquitto_message *message) {
    (void)client, (void)context, (void)message;
    arrived++;
}

/* Lets the library work until `flag` is set. */
static void run_until(struct mosquitto *client, const int *flag) {
    double end = trips_now() + TIMEOUT_MS / 1e3;
    while (!*flag) {
        int code = mosquitto_loop(client, 1000, 1);
        if (code) fail("loop", code);
        if (trips_now() > end) fail("waiting", MOSQ_ERR_CONN_LOST);
    }
}

static void trip(void *context) {
    struct mosquitto *client = (struct mosquitto *)context;
    char payload[SIZE] = {0};
    arrived = 0;
    int code = mosquitto_publish(client, NULL, "benchmark", SIZE, payload, 0, false);
    if (code) fail("publish", code);
    run_until(client, &arrived);
}

int main(int count, char **arguments) {
    if (count < 5 || strcmp(arguments[1], "ask")) return 2;
    mosquitto_lib_init();
    struct mosquitto *client = mosquitto_new(NULL, true, NULL);
    mosquitto_int_option(client, MOSQ_OPT_TCP_NODELAY, 1);
    mosquitto_subscribe_callback_set(client, on_subscribe);
    mosquitto_message_callback_set(client, on_message);
    int code = mosquitto_connect(client, arguments[2], atoi(arguments[3]), 60);
    if (code) fail("connect", code);
    code = mosquitto_subscribe(client, NULL, "benchmark", 0);
    if (code) fail("subscribe", code);
    run_until(client, &subscribed);
    trips_measure(atof(arguments[4]), trip, client);
    mosquitto_disconnect(client);
    return 0;
}
