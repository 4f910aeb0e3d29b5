//! Makes two hosts with a program in each, prints the lab's name, and waits: for the test of what a
//! signal leaves behind, and for manual inspection.

fn main() -> anyhow::Result<()> {
    let pair = tickwire_lab::LabPair::new()?;
    let _programs = [pair.a.spawn(&["sleep", "600"])?, pair.b.spawn(&["sleep", "600"])?];
    let beside = std::env::temp_dir().join(format!("beside-{}", pair.lab.name()));
    std::fs::write(&beside, "")?;
    tickwire_lab::remove_when_interrupted(beside);
    println!("{}", pair.lab.name());
    loop {
        std::thread::park();
    }
}
