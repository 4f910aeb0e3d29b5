//! Programs that get the C library's functions by a handle instead of by name, like language
//! runtimes.

mod common;

use common::{Both, ECHO_SERVER, TIMEOUT, compiled, crossing, python, start, wait_until_listening};

/// Opened by the usual names and used by the handle, then the other way round. The next library
/// after the program is ours, not the C library.
const MIXED: &str = r#"
#include <arpa/inet.h>
#include <dlfcn.h>
#include <netinet/in.h>
#include <poll.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#define BY(handle, name) ((__typeof__(name) *)dlsym(handle, #name))

int main(int count, char **arguments) {
    void *library = dlopen("libc.so.6", RTLD_NOW), *next = RTLD_NEXT;
    struct sockaddr_in name = {.sin_family = AF_INET, .sin_port = htons(9000)};
    struct pollfd asked = {.events = POLLIN};
    char back[6];
    inet_pton(AF_INET, arguments[1], &name.sin_addr);

    int first = socket(AF_INET, SOCK_STREAM, 0);
    if (connect(first, (struct sockaddr *)&name, sizeof name))
        return 2;
    asked.fd = first;
    for (int turn = 0; turn < 100; turn++)
        if (BY(library, send)(first, "hello", 5, 0) != 5 || BY(library, poll)(&asked, 1, 5000) != 1 ||
            BY(library, recv)(first, back, 5, MSG_WAITALL) != 5 || BY(next, send)(first, "again", 5, 0) != 5 ||
            BY(library, read)(first, back, 5) != 5)
            return 3;
    if (BY(library, close)(first))
        return 4;
    int second = BY(library, socket)(AF_INET, SOCK_STREAM, 0);
    if (second != first || BY(library, connect)(second, (struct sockaddr *)&name, sizeof name))
        return 5;
    for (int turn = 0; turn < 100; turn++)
        if (write(second, "hello", 5) != 5 || recv(second, back, 5, MSG_WAITALL) != 5)
            return 6;
    dlerror();
    if (dlsym(library, "strlen") != dlsym(RTLD_DEFAULT, "strlen") || dlerror() || dlsym(library, "no such") || !dlerror())
        return 7;
    return 0;
}
"#;

/// Python's ctypes, which opens the library by its name.
const CTYPES: &str = r#"
import ctypes, socket, sys
library = ctypes.CDLL('libc.so.6', use_errno=True)
connection = socket.create_connection((sys.argv[1], 9000), timeout=None)
back = ctypes.create_string_buffer(5)
for _ in range(100):
    assert library.send(connection.fileno(), b'hello', 5, 0) == 5, ctypes.get_errno()
    assert library.recv(connection.fileno(), back, 5, socket.MSG_WAITALL) == 5, ctypes.get_errno()
    assert back.raw == b'hello'
"#;

#[test]
fn calls_by_a_handle_of_the_c_library_are_accelerated_too() {
    let both = Both::new();
    let address = both.pair.b_v4();
    let mut server = start(both.b(), false, &[python(), "-c", ECHO_SERVER, &address]);
    wait_until_listening(both.b(), &mut server, "tcp", 9000);
    let mixed = compiled(both.a(), MIXED);
    for command in [&[&*mixed, &*address][..], &[python(), "-c", CTYPES, &address]] {
        crossing(&both.a_service, 100, || {
            let ended = start(both.a(), true, command).wait(TIMEOUT).unwrap();
            assert!(ended.status.success(), "{command:?}: {:?} {}", ended.status, ended.stderr);
        });
    }
}
