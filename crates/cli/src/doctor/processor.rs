//! The processors: frequency scaling, idle states, isolation, clock source.

use super::system::System;
use tickwire_show::finding::Finding;

const CPU: &str = "sys/devices/system/cpu";

/// Idle states with an exit latency below this, in microseconds, do not matter.
const QUICK_US: u64 = 5;

/// All checks of the processors.
pub(crate) fn check(system: &System) -> Vec<Finding> {
    vec![governor(system), idle(system), isolation(system), clock(system)]
}

fn processors(system: &System) -> Vec<String> {
    let is_processor = |name: &String| name.strip_prefix("cpu").is_some_and(|n| n.parse::<u32>().is_ok());
    system.names(CPU).into_iter().filter(is_processor).collect()
}

fn governor(system: &System) -> Finding {
    let all = processors(system);
    let read = |cpu: &String| system.read(&format!("{CPU}/{cpu}/cpufreq/scaling_governor"));
    let governors: Vec<String> = all.iter().filter_map(read).collect();
    match governors.iter().find(|g| *g != "performance") {
        _ if governors.is_empty() => {
            Finding::good("CPU frequency", "not governed by this system (a virtual machine, or the firmware does it)")
        }
        None => Finding::good("CPU frequency", "governor performance"),
        Some(other) => Finding::improve(
            "CPU frequency",
            format!("governor {other}"),
            "`cpupower frequency-set -g performance`: matters, some microseconds after each pause and more jitter",
        ),
    }
}

fn idle(system: &System) -> Finding {
    let mut deepest: Option<(u64, String)> = None;
    for cpu in processors(system) {
        let directory = format!("{CPU}/{cpu}/cpuidle");
        for state in system.names(&directory) {
            if system.number(&format!("{directory}/{state}/disable")).unwrap_or(0) != 0 {
                continue;
            }
            let latency = system.number(&format!("{directory}/{state}/latency")).unwrap_or(0);
            if deepest.as_ref().is_none_or(|(most, _)| latency > *most) {
                deepest = Some((latency, system.read(&format!("{directory}/{state}/name")).unwrap_or(state)));
            }
        }
    }
    match deepest {
        None => Finding::good("idle states", "none are governed by this system"),
        Some((latency, name)) if latency <= QUICK_US => {
            Finding::good("idle states", format!("{name}, {latency} us to wake up"))
        }
        Some((latency, name)) => Finding::improve(
            "idle states",
            format!("{name} takes {latency} us to wake up"),
            format!(
                "`cpupower idle-set -D {QUICK_US}` keeps to the quick ones: matters much for programs that sleep, little with --spin"
            ),
        ),
    }
}

fn isolation(system: &System) -> Finding {
    let isolated = system.read(&format!("{CPU}/isolated")).unwrap_or_default();
    let count = processors(system).len();
    if !isolated.is_empty() {
        return Finding::good(
            "core isolation",
            format!("cores {isolated} are isolated: pin programs to them with `taskset`"),
        );
    }
    let advice = if count < 4 {
        "pin the program with `taskset`; more cores would let some be isolated: matters for the worst message, not the median"
    } else {
        "`isolcpus=managed_irq,domain,LIST nohz_full=LIST` on the kernel's command line, and `taskset`: matters for the worst message, not the median"
    };
    Finding::improve("core isolation", format!("none of {count} cores is isolated"), advice)
}

fn clock(system: &System) -> Finding {
    let current = system.read("sys/devices/system/clocksource/clocksource0/current_clocksource").unwrap_or_default();
    match current.as_str() {
        // The vDSO reads these without a system call.
        "tsc" | "arch_sys_counter" | "kvm-clock" | "hyperv_clocksource_tsc_page" => {
            Finding::good("TSC", format!("clock source {current}"))
        }
        other => Finding::improve(
            "TSC",
            format!("clock source {other}"),
            "each reading of the clock is a system call or worse: `tsc=reliable` on the kernel's command line, if the hardware is: matters, up to a microsecond a packet",
        ),
    }
}

#[cfg(test)]
mod tests {
    use super::super::tests::{tree, verdicts};
    use super::*;
    use tickwire_show::finding::Verdict::{Good, Improve};

    const SOURCE: &str = "sys/devices/system/clocksource/clocksource0/current_clocksource";

    #[test]
    fn a_tuned_machine_is_good() {
        let root = tree(&[
            ("sys/devices/system/cpu/cpu0/cpufreq/scaling_governor", "performance"),
            ("sys/devices/system/cpu/cpu0/cpuidle/state0/latency", "0"),
            ("sys/devices/system/cpu/cpu0/cpuidle/state1/latency", "133"),
            ("sys/devices/system/cpu/cpu0/cpuidle/state1/disable", "1"),
            ("sys/devices/system/cpu/isolated", "2-3"),
            (SOURCE, "tsc"),
        ]);
        assert_eq!(verdicts(&check(&System::at(root.path()))), [Good; 4]);
    }

    #[test]
    fn a_laptop_is_told_what_to_change() {
        let root = tree(&[
            ("sys/devices/system/cpu/cpu0/cpufreq/scaling_governor", "powersave"),
            ("sys/devices/system/cpu/cpu0/cpuidle/state3/latency", "133"),
            ("sys/devices/system/cpu/cpu0/cpuidle/state3/name", "C6"),
            ("sys/devices/system/cpu/isolated", ""),
            (SOURCE, "hpet"),
        ]);
        let findings = check(&System::at(root.path()));
        assert_eq!(verdicts(&findings), [Improve; 4]);
        assert!(findings[1].found.contains("C6 takes 133 us"), "{}", findings[1]);
    }
}
