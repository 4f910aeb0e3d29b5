//! What figures were taken on.

/// The machine in one line: processor, number of processors, kernel.
#[must_use]
pub fn machine() -> String {
    let read = |path: &str| std::fs::read_to_string(path).unwrap_or_default();
    let processors = std::thread::available_parallelism().map_or(1, std::num::NonZero::get);
    described(&read("/proc/cpuinfo"), processors, &read("/proc/sys/kernel/osrelease"))
}

fn described(cpuinfo: &str, processors: usize, release: &str) -> String {
    let model = cpuinfo.lines().find_map(|line| line.strip_prefix("model name")?.split_once(": "));
    let model = model.map_or("unknown processor", |(_, name)| name.trim());
    format!("{model}, {processors} processors, Linux {}", release.trim())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_machine_is_described_also_where_it_does_not_name_its_processor() {
        let cpuinfo = "processor\t: 0\nmodel name\t: A Processor @ 2 GHz\n";
        assert_eq!(described(cpuinfo, 2, "6.12.1\n"), "A Processor @ 2 GHz, 2 processors, Linux 6.12.1");
        assert_eq!(described("processor\t: 0\n", 4, "6.1\n"), "unknown processor, 4 processors, Linux 6.1");
    }
}
