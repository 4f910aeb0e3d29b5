//! The same page read by C and by Python, as their users write it.
#![cfg(target_os = "linux")]

mod common;

use common::parameters;
use std::path::{Path, PathBuf};
use std::process::Command;
use tickclock::{Clock, Count, CounterKind, Nanos, Parameters, Writer};

/// The C library that was built with this test.
fn library() -> PathBuf {
    let test = std::env::current_exe().unwrap();
    let directory = test.parent().unwrap();
    [directory, directory.parent().unwrap()]
        .iter()
        .map(|directory| directory.join("libtickclock.so"))
        .find(|path| path.exists())
        .expect("libtickclock.so beside the test: cargo build -p tickclock")
}

/// A page whose time at count 1000 is 1 700 000 000 s, by a counter of 1 ns.
fn page(directory: &Path) -> (PathBuf, Writer) {
    let path = directory.join("clock");
    let writer = Writer::create(&path, CounterKind::MonotonicRaw).unwrap();
    let since = Count(2);
    writer.publish(&Parameters { since, ..parameters(Count(1000), Nanos(1_700_000_037_000_000_000)) });
    (path, writer)
}

fn said(command: &mut Command) -> String {
    let output = command.output().unwrap();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    String::from_utf8(output.stdout).unwrap()
}

#[test]
fn a_c_program_reads_the_clock() {
    let directory = tempfile::tempdir().unwrap();
    let (path, _writer) = page(directory.path());
    let source = directory.path().join("read.c");
    std::fs::write(
        &source,
        r#"
#include <errno.h>
#include <stdio.h>
#include <tickclock.h>
int main(int argc, char **argv) {
    (void)argc;
    struct tickclock *clock, *none;
    struct tickclock_time at, now;
    uint64_t counters[2] = {1000, 3000};
    int64_t times[2], span;
    if (tickclock_open(&none, "/nowhere") != ENOENT || none) return 1;
    if (tickclock_open(&none, argv[0]) != EBADMSG) return 2;
    if (tickclock_open(NULL, NULL) != EINVAL) return 3;
    if (tickclock_open(&clock, argv[1])) return 4;
    if (tickclock_at(clock, 1500, &at) || tickclock_now(clock, &now)) return 5;
    if (tickclock_convert(clock, counters, times, 2)) return 6;
    if (now.counter > tickclock_counter(clock)) return 7;
    if (tickclock_now_unordered(clock, &now) || now.counter > tickclock_counter(clock) || now.latest_ns <= now.utc_ns) return 10;
    if (tickclock_elapsed(clock, 5, 8, &span)) return 9;
    if (tickclock_wait_until(clock, now.utc_ns + 1000, NULL)) return 8;
    struct tickclock_time far;
    if (tickclock_at(clock, UINT64_MAX, &far) != ERANGE || far.utc_ns != TICKCLOCK_NO_TIME) return 10;
    if (far.earliest_ns != INT64_MIN || far.latest_ns != INT64_MAX || far.error_ns != UINT64_MAX || far.status & TICKCLOCK_SYNCHRONISED) return 11;
    uint64_t some[2] = {UINT64_MAX, 3000};
    int64_t few[2];
    if (tickclock_convert(clock, some, few, 2) != ERANGE || few[0] != TICKCLOCK_NO_TIME || few[1] != times[1]) return 12;
    if (tickclock_elapsed(clock, 2, UINT64_MAX, &few[0]) != ERANGE) return 13;
    /* From before the counter broke. */
    if (tickclock_at(clock, 1, &far) != ERANGE || far.utc_ns != TICKCLOCK_NO_TIME || far.status & TICKCLOCK_SYNCHRONISED) return 14;
    if (!(far.status & TICKCLOCK_DISRUPTED) || far.earliest_ns != INT64_MIN || at.disruptions != 2 || now.disruptions != 2) return 15;
    some[0] = 1;
    if (tickclock_convert(clock, some, few, 2) != ERANGE || few[0] != TICKCLOCK_NO_TIME || few[1] != times[1]) return 16;
    if (tickclock_elapsed(clock, 1, 3000, &span) != ERANGE || tickclock_elapsed(clock, 5, 8, &span)) return 17;
    printf("%lld %lld %lld %u %d %llu %lld | %lld %lld | %lld\n", (long long)at.utc_ns, (long long)at.earliest_ns, (long long)at.latest_ns, at.status,
           at.tai_utc_s, (unsigned long long)at.error_ns, (long long)at.age_ns, (long long)times[0], (long long)times[1],
           (long long)span);
    tickclock_close(clock);
    tickclock_close(NULL);
    return 0;
}
"#,
    )
    .unwrap();
    let program = directory.path().join("read");
    let include = Path::new(env!("CARGO_MANIFEST_DIR")).join("include");
    let library = library();
    said(
        Command::new("cc")
            .args(["-std=c99", "-pedantic", "-Wall", "-Wextra", "-Werror", "-I"])
            .arg(include)
            .arg(&source)
            .arg(&library)
            .arg("-o")
            .arg(&program),
    );
    let text = said(Command::new(&program).arg(&path).env("LD_LIBRARY_PATH", library.parent().unwrap()));
    assert_eq!(
        text,
        "1700000000000000500 1700000000000000000 1700000000000001000 33 37 20 500 | 1700000000000000000 1700000000000002000 | 3\n"
    );
}

#[test]
fn a_python_program_reads_the_clock() {
    let directory = tempfile::tempdir().unwrap();
    let (path, writer) = page(directory.path());
    // As in the wheel: the library beside the module.
    let module = directory.path().join("tickclock");
    std::fs::create_dir(&module).unwrap();
    std::fs::copy(
        Path::new(env!("CARGO_MANIFEST_DIR")).join("python/tickclock/__init__.py"),
        module.join("__init__.py"),
    )
    .unwrap();
    std::fs::copy(library(), module.join("libtickclock.so")).unwrap();
    let program = r#"
import sys, tickclock
clock = tickclock.Clock(sys.argv[1])
at = clock.at(1500)
assert str(at.status) == f"{at.status}" == "SYNCHRONISED|TAI_KNOWN" and at.status & tickclock.Status.TAI_KNOWN
for wrong in (-1, 2**64):
    for call in (clock.at, lambda count: clock.convert([5, count]), lambda count: clock.elapsed(5, count)):
        try:
            call(wrong)
            sys.exit(f"{wrong} was taken")
        except OverflowError as error:
            assert "is no value of the counter" in str(error), error
for call in (clock.at, lambda count: clock.convert([5, count]), lambda count: clock.elapsed(5, count)):
    try:
        print(call(2**64 - 1))
        sys.exit("a time that does not fit")
    except OverflowError as error:
        assert str(2**64 - 1) in str(error) and "64 bits" in str(error), error
for page, said in ((sys.executable, "no page of a clock"), (sys.argv[2], "of another version than this library"), (sys.argv[3], "no page of a clock")):
    try:
        tickclock.Clock(page)
        sys.exit(f"{page} was opened")
    except OSError as error:
        assert said in str(error), error
for call in (clock.at, lambda count: clock.convert([5, count]), lambda count: clock.elapsed(5, count)):
    try:
        print(call(1))
        sys.exit("a value from before the counter broke was taken")
    except tickclock.Unknown as unknown:
        assert str(unknown).startswith("1 is from before the counter broke") and tickclock.Status.DISRUPTED in unknown.status, unknown
assert at.disruptions == clock.now().disruptions == 2
assert at.status == tickclock.Status.SYNCHRONISED | tickclock.Status.TAI_KNOWN
assert at.tai_ns == at.utc_ns + 37 * 10**9 and at.ntp >> 32 == 1700000000 + 2208988800
assert clock.convert([1000, 3000]) == [1700000000000000000, 1700000000000002000]
assert clock.elapsed(5, 8) == 3
now = clock.now()
assert clock.wait_until(now.utc_ns + 1000).utc_ns >= now.utc_ns + 1000
import threading, time
other, woken, started = tickclock.Clock(sys.argv[1]), [], threading.Event()
waiting = threading.Thread(target=lambda: (started.set(), woken.append(other.wait_until(clock.now().utc_ns + 600_000_000))))
waiting.start()
started.wait()
time.sleep(0.2)
other.close()
try:
    other.now()
    sys.exit("a closed clock was read")
except ValueError:
    waiting.join()
    assert len(woken) == 1, "a thread that waits still has the clock"
try:
    import numpy
    times = clock.convert(numpy.array([[1000, 3000]], dtype=numpy.uint64))
    assert times.dtype == numpy.int64 and times.shape == (1, 2) and times[0, 1] - times[0, 0] == 2000
    for wrong, error in ((numpy.array([-1]), OverflowError), (numpy.array([0.5]), TypeError), (numpy.array([5, 2**64 - 1], dtype=numpy.uint64), OverflowError)):
        try:
            clock.convert(wrong)
            sys.exit(f"{wrong} was taken")
        except error:
            pass
except ImportError:
    pass
try:
    tickclock.Clock("/nowhere")
except FileNotFoundError as error:
    assert error.filename == "/nowhere"
print(at.utc_ns, at.earliest_ns, at.latest_ns, flush=True)
input()
for ask in (clock.now, lambda: clock.elapsed(5, 8), lambda: clock.convert([5])):
    try:
        ask()
        sys.exit("it is not known")
    except tickclock.Unknown as unknown:
        print(unknown)
clock.close()
try:
    clock.now()
except ValueError as error:
    print(error)
"#;
    // Of another version, and cut short.
    let (newer, short) = (directory.path().join("newer"), directory.path().join("short"));
    let mut bytes = std::fs::read(&path).unwrap();
    bytes[8] = 99;
    std::fs::write(&newer, &bytes).unwrap();
    std::fs::write(&short, &bytes[..4000]).unwrap();
    let mut python = Command::new("python3")
        .args(["-c", program])
        .args([&path, &newer, &short])
        .env("PYTHONPATH", directory.path())
        .stdin(std::process::Stdio::piped())
        .stdout(std::process::Stdio::piped())
        .spawn()
        .unwrap();
    let mut out = std::io::BufReader::new(python.stdout.take().unwrap());
    let mut line = String::new();
    std::io::BufRead::read_line(&mut out, &mut line).unwrap();
    assert_eq!(line, "1700000000000000500 1700000000000000000 1700000000000001000\n");
    writer.publish(&Parameters { fresh_until: Count(u64::MAX / 2), ..Parameters::UNKNOWN });
    assert_eq!(Clock::open(&path).unwrap().now().bound, u64::MAX);
    std::io::Write::write_all(&mut python.stdin.take().unwrap(), b"\n").unwrap();
    let mut rest = String::new();
    std::io::Read::read_to_string(&mut out, &mut rest).unwrap();
    assert!(python.wait().unwrap().success());
    assert_eq!(rest, "the time is not known (UNKNOWN)\n".repeat(3) + "the clock is closed\n");
}

#[test]
fn a_python_program_without_the_library_is_told_what_to_install() {
    let module = Path::new(env!("CARGO_MANIFEST_DIR")).join("python");
    // -B leaves no compiled module in the tree.
    let import = ["-B", "-c", "import tickclock"];
    let output = Command::new("python3").args(import).env("PYTHONPATH", module).env_remove("LD_LIBRARY_PATH").output();
    let said = String::from_utf8(output.unwrap().stderr).unwrap();
    let last = said.lines().last().unwrap_or_default();
    assert!(last.starts_with("ImportError: tickclock needs libtickclock.so") && last.contains("wheel"), "{said}");
}

/// Checks the output of an example: the work began at a known time, and took some.
fn stamps_work(text: &str) {
    let numbers: Vec<i64> = text.split(|c: char| !c.is_ascii_digit()).filter_map(|word| word.parse().ok()).collect();
    let [began, earliest, latest, span] = numbers[..] else { panic!("{text}") };
    assert!(earliest < began && began < latest && span > 0, "{text}");
}

fn example(name: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../../examples").join(name)
}

#[test]
fn the_examples_in_c_and_python_stamp_work() {
    let directory = tempfile::tempdir().unwrap();
    let (path, _writer) = page(directory.path());
    let library = library();
    let beside = library.parent().unwrap();

    let program = directory.path().join("read_clock");
    let include = Path::new(env!("CARGO_MANIFEST_DIR")).join("include");
    let mut compiler = Command::new("cc");
    compiler.args(["-Wall", "-Wextra", "-Werror", "-I"]).arg(include).arg(example("read_clock.c")).arg(&library);
    said(compiler.arg("-o").arg(&program));
    stamps_work(&said(Command::new(&program).arg(&path).env("LD_LIBRARY_PATH", beside)));

    let module = Path::new(env!("CARGO_MANIFEST_DIR")).join("python");
    let mut python = Command::new("python3");
    python.arg("-B").arg(example("read_clock.py")).arg(&path);
    stamps_work(&said(python.env("PYTHONPATH", module).env("LD_LIBRARY_PATH", beside)));
}
