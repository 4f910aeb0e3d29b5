//! The machine that the figures are from.

/// The machine in one line: processor, number of processors, kernel.
#[must_use]
pub fn machine() -> String {
    let read = |path: &str| std::fs::read_to_string(path).unwrap_or_default();
    described(&read("/proc/cpuinfo"), &read("/proc/sys/kernel/osrelease"))
}

/// Counts all processors of the machine, including those that the program may not run on.
fn described(cpuinfo: &str, release: &str) -> String {
    let is_processor = |line: &&str| line.split(':').next().is_some_and(|name| name.trim() == "processor");
    let processors = cpuinfo.lines().filter(is_processor).count();
    let model = cpuinfo.lines().find_map(|line| line.strip_prefix("model name")?.split_once(": "));
    let model = model.map_or("unknown processor", |(_, name)| name.trim());
    let processors = if processors == 1 { "1 processor".to_owned() } else { format!("{processors} processors") };
    format!("{model}, {processors}, Linux {}", release.trim())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_machine_is_described_also_where_it_does_not_name_its_processor() {
        let one = "processor\t: 0\nmodel name\t: A Processor @ 2 GHz\n";
        let two = one.to_owned() + "\nprocessor\t: 1\nmodel name\t: A Processor @ 2 GHz\n";
        assert_eq!(described(&two, "6.12.1\n"), "A Processor @ 2 GHz, 2 processors, Linux 6.12.1");
        assert_eq!(described("processor\t: 0\n", "6.1\n"), "unknown processor, 1 processor, Linux 6.1");
    }
}
