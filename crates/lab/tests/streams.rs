//! The C library's own use of a socket: stdio streams, `dprintf`, and programs that inherit it as
//! standard input and output.

mod common;

use common::{Both, TIMEOUT, compiled, crossing, echoes, python, start, wait_until_listening};

/// A server with a process per connection; the command line selects what that process does.
const SERVER: &str = r#"
#include <arpa/inet.h>
#include <netinet/in.h>
#include <sched.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

static char *self, buffer[65536];

static void standard(int connection) {
    dup2(connection, 0);
    dup2(connection, 1);
    close(connection);
}

/* Not flushed at the end: the C library does that at exit. */
static int copy(FILE *from, FILE *to) {
    size_t n;
    while ((n = fread(buffer, 1, 1 + rand() % sizeof buffer, from)) > 0)
        fwrite(buffer, 1, n, to);
    return ferror(from) || ferror(to);
}

static int lines(int connection) {
    FILE *both = fdopen(connection, "r+");
    int count = 0;
    setvbuf(both, NULL, _IOLBF, 1000);
    while (fgets(buffer, sizeof buffer, both) && strcmp(buffer, "end\n"))
        fprintf(both, "%d: %s", ++count, buffer);
    dprintf(fileno(both), "%d lines, %.1f each\n", count, 0.5);
    return fclose(both);
}

static int run_clone(void *argument) {
    ssize_t n;
    while ((n = read(*(int *)argument, buffer, sizeof buffer)) > 0)
        if (send(*(int *)argument, buffer, n, 0) != n)
            return 1;
    return 0;
}

static int serve(int connection, const char *how) {
    char *nothing[] = {NULL};
    if (!strcmp(how, "fdopen"))
        return copy(fdopen(connection, "r"), fdopen(dup(connection), "w"));
    if (!strcmp(how, "lines"))
        return lines(connection);
    standard(connection);
    if (!strcmp(how, "dup2"))
        return copy(stdin, stdout);
    if (!strcmp(how, "execl"))
        return execl("/bin/cat", "cat", (char *)NULL);
    if (!strcmp(how, "execlp"))
        return execlp("cat", "cat", "-", (char *)NULL);
    if (!strcmp(how, "execle"))
        return execle(self, self, "filter", "1", "2", "3", "4", "5", (char *)NULL, nothing);
    return 99;
}

int main(int count, char **arguments) {
    struct sockaddr_in name = {.sin_family = AF_INET, .sin_port = htons(9000)};
    int on = 1, listener;
    self = arguments[0];
    if (!strcmp(arguments[1], "filter"))
        return count != 7 || copy(stdin, stdout);
    signal(SIGCHLD, SIG_IGN);
    inet_pton(AF_INET, arguments[2], &name.sin_addr);
    listener = socket(AF_INET, SOCK_STREAM, 0);
    setsockopt(listener, SOL_SOCKET, SO_REUSEADDR, &on, sizeof on);
    if (bind(listener, (struct sockaddr *)&name, sizeof name) || listen(listener, 8))
        return 1;
    for (;;) {
        int connection = accept(listener, NULL, NULL);
        if (!strcmp(arguments[1], "clone")) {
            if (clone(run_clone, (char *)malloc(65536) + 65536, SIGCHLD, &connection) < 0)
                return 2;
        } else if (!strcmp(arguments[1], "_Fork") ? !_Fork() : !fork()) {
            close(listener);
            if (!strcmp(arguments[1], "_Fork"))
                _exit(run_clone(&connection));
            return serve(connection, arguments[1]);
        }
        close(connection);
    }
}
"#;

fn serves(how: &str) {
    let both = Both::new();
    let program = compiled(both.b(), SERVER);
    echoes(&both, &[&program, how, &both.pair.b_v4()]);
}

#[test]
fn streams_over_a_connection_carry_it_both_ways() {
    serves("fdopen");
}

#[test]
fn the_standard_streams_become_a_connection() {
    serves("dup2");
}

#[test]
fn arguments_of_an_exec_may_be_listed() {
    serves("execl");
    serves("execlp");
}

#[test]
fn a_program_inherits_a_connection_as_its_standard_streams() {
    serves("execle");
}

#[test]
fn a_clone_that_shares_nothing_is_a_fork() {
    serves("clone");
    serves("_Fork");
}

#[test]
fn lines_are_answered_one_by_one() {
    const CLIENT: &str = r#"
import socket, sys
with socket.create_connection((sys.argv[1], 9000), timeout=20) as s:
    f = s.makefile('rw')
    for n in range(1, 50):
        print('line', file=f, flush=True)
        assert f.readline() == f'{n}: line\n'
    print('end', file=f, flush=True)
    print(f.read(), end='')
"#;
    let both = Both::new();
    let (program, address) = (compiled(both.b(), SERVER), both.pair.b_v4());
    let mut server = start(both.b(), true, &[&program, "lines", &address]);
    wait_until_listening(both.b(), &mut server, "tcp", 9000);
    let printed = crossing(&both.b_service, 50, || {
        start(both.a(), true, &[python(), "-c", CLIENT, &address]).success(TIMEOUT).unwrap()
    });
    assert_eq!(printed, "49 lines, 0.5 each\n");
}

#[test]
fn a_shell_talks_over_its_own_connection() {
    let script = r#"
exec 3<>"/dev/tcp/$0/9000"
for n in 1 2 3; do
    echo "line $n" >&3
    read -r line <&3
    printf 'and %s\n' more >&3
    read -r more <&3
    echo "$line $more"
done
echo end >&3
cat <&3
"#;
    let both = Both::new();
    let (program, address) = (compiled(both.b(), SERVER), both.pair.b_v4());
    let mut server = start(both.b(), true, &[&program, "lines", &address]);
    wait_until_listening(both.b(), &mut server, "tcp", 9000);
    let printed = crossing(&both.b_service, 8, || {
        start(both.a(), true, &["bash", "-c", script, &address]).success(TIMEOUT).unwrap()
    });
    let lines: String = (0..3).map(|n| format!("{}: line {} {}: and more\n", 2 * n + 1, n + 1, 2 * n + 2)).collect();
    assert_eq!(printed, lines + "6 lines, 0.5 each\n");
}
