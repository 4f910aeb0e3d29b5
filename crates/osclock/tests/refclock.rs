//! Both sides of NTP's shared memory: our writer, and a reader like that of ntpd.

use std::io::Write;
use std::os::unix::process::CommandExt;
use std::process::{Command, Stdio};
use tickwire_osclock::refclock::{Sample, Segment, ShmError, ShmLeap, remove};

/// The unit that a test uses alone; its segment is removed at the end.
struct Unit(u8);

impl Drop for Unit {
    fn drop(&mut self) {
        let _ = remove(self.0);
    }
}

fn sample(second: i64) -> Sample {
    let system = second * 1_000_000_000 + 123_456_789;
    Sample { clock: system - 1_500_000_000, system, leap: ShmLeap::Insert, precision: -22 }
}

#[test]
fn a_sample_is_taken_once() {
    let unit = Unit(251);
    let (writer, reader) = (Segment::attach(unit.0).unwrap(), Segment::attach(unit.0).unwrap());
    assert_eq!(reader.take(), None);
    writer.feed(&sample(1000));
    assert_eq!(reader.take(), Some(sample(1000)));
    assert_eq!(reader.take(), None);
    writer.feed(&sample(-1));
    assert_eq!(reader.take(), Some(sample(-1)), "before 1970");
}

#[test]
fn a_reader_never_gets_parts_of_two_samples() {
    let unit = Unit(252);
    let (writer, reader) = (Segment::attach(unit.0).unwrap(), Segment::attach(unit.0).unwrap());
    std::thread::scope(|scope| {
        scope.spawn(move || (0..200_000).for_each(|second| writer.feed(&sample(second))));
        let mut taken = 0;
        while taken < 1000 {
            let Some(one) = reader.take() else { continue };
            assert_eq!(one, sample(one.system.div_euclid(1_000_000_000)));
            taken += 1;
            if one.system > 199_990 * 1_000_000_000 {
                break;
            }
        }
    });
}

/// The structure and the reader of ntpd's refclock_shm.c, in the author's terms.
const READER: &str = r#"
#include <stdio.h>
#include <stdlib.h>
#include <sys/ipc.h>
#include <sys/shm.h>
#include <time.h>
struct shmTime {
    int mode; volatile int count;
    time_t clockTimeStampSec; int clockTimeStampUSec;
    time_t receiveTimeStampSec; int receiveTimeStampUSec;
    int leap; int precision; int nsamples; volatile int valid;
    unsigned clockTimeStampNSec; unsigned receiveTimeStampNSec; int dummy[8];
};
int main(int argc, char **argv) {
    int id = shmget(0x4e545030 + atoi(argv[1]), sizeof(struct shmTime), 0);
    struct shmTime *t = shmat(id, 0, 0);
    if (t == (void *)-1) return 2;
    printf("mode %d count %d valid %d: %ld.%06d %ld.%06d %u %u leap %d precision %d\n", t->mode, t->count & 1, t->valid,
           (long)t->clockTimeStampSec, t->clockTimeStampUSec, (long)t->receiveTimeStampSec, t->receiveTimeStampUSec,
           t->clockTimeStampNSec, t->receiveTimeStampNSec, t->leap, t->precision);
}
"#;

#[test]
fn c_programs_see_what_ntpd_expects() {
    let unit = Unit(253);
    let writer = Segment::attach(unit.0).unwrap();
    writer.feed(&sample(1_700_000_000));
    let program = std::env::temp_dir().join(format!("tickwire-refclock-{}", std::process::id()));
    let mut cc = Command::new("cc").args(["-x", "c", "-", "-o"]).arg(&program).stdin(Stdio::piped()).spawn().unwrap();
    cc.stdin.take().unwrap().write_all(READER.as_bytes()).unwrap();
    assert!(cc.wait().unwrap().success());
    let printed = Command::new(&program).arg(unit.0.to_string()).output().unwrap().stdout;
    std::fs::remove_file(&program).unwrap();
    let expected =
        "mode 1 count 0 valid 1: 1699999998.623456 1700000000.123456 623456789 123456789 leap 1 precision -22\n";
    assert_eq!(String::from_utf8(printed).unwrap(), expected);
}

const MAKES: &str = "TICKWIRE_TEST_MAKES_A_SEGMENT";

/// Runs in a process of another user and creates a segment.
#[test]
fn makes_a_segment_for_the_test_below() {
    if let Some(unit) = std::env::var_os(MAKES) {
        Segment::attach(unit.to_str().unwrap().parse().unwrap()).unwrap();
    }
}

#[test]
fn a_segment_of_another_user_is_not_trusted() {
    if !nix::unistd::geteuid().is_root() {
        eprintln!("skipped: needs root to become another user");
        return;
    }
    let unit = Unit(254);
    // Run through /proc/self/exe, because the other user may lack search permission for the
    // directories of this program. (A copy might still be open for writing in a child that another
    // test has just forked, and then exec fails with ETXTBSY.)
    let mut other = Command::new("/proc/self/exe");
    other
        .args(["--exact", "makes_a_segment_for_the_test_below"])
        .env(MAKES, unit.0.to_string())
        .uid(65_534)
        .current_dir("/");
    assert!(other.output().unwrap().status.success());
    let error = Segment::attach(unit.0).unwrap_err();
    assert!(matches!(error, ShmError::Foreign { owner: 65_534, .. }), "{error}");
    assert!(error.to_string().contains("ipcrm -M 0x4e54512e"), "{error}");
}

#[test]
fn public_units_are_for_all_users() {
    let unit = Unit(255);
    let _segment = Segment::attach(unit.0).unwrap();
    let listed = std::fs::read_to_string("/proc/sysvipc/shm").unwrap();
    let key = (0x4e54_5030 + i32::from(unit.0)).to_string();
    let line = listed.lines().find(|line| line.split_whitespace().next() == Some(&key)).unwrap();
    assert_eq!(line.split_whitespace().nth(2), Some("666"), "{line}");
}
