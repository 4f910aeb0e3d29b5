/* Modbus/TCP by libmodbus: the client reads a hundred registers. */
#include "trips.h"
#include <modbus/modbus.h>
#include <string.h>
#include <unistd.h>

enum { REGISTERS = 100 };

static void fail(const char *what) {
    perror(what);
    exit(1);
}

static void serve(modbus_t *modbus) {
    modbus_mapping_t *map = modbus_mapping_new(0, 0, REGISTERS, 0);
    int listener = modbus_tcp_listen(modbus, 1);
    unsigned char query[MODBUS_TCP_MAX_ADU_LENGTH];
    if (!map || listener < 0) fail("listen");
    while (modbus_tcp_accept(modbus, &listener) >= 0) {
        int length;
        while ((length = modbus_receive(modbus, query)) >= 0)
            if (length > 0) modbus_reply(modbus, query, length, map);
        modbus_close(modbus);
    }
    fail("accept");
}

static void trip(void *modbus) {
    uint16_t registers[REGISTERS];
    if (modbus_read_registers((modbus_t *)modbus, 0, REGISTERS, registers) != REGISTERS) fail("read");
}

int main(int count, char **arguments) {
    if (count < 4) return 2;
    modbus_t *modbus = modbus_new_tcp(arguments[2], atoi(arguments[3]));
    if (!modbus) fail("modbus");
    if (!strcmp(arguments[1], "serve")) serve(modbus);
    if (count < 5) return 2;
    if (modbus_connect(modbus)) fail("connect");
    trips_measure(atof(arguments[4]), trip, modbus);
    return 0;
}
