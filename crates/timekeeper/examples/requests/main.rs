//! How many requests per second a time server answers: see `linux`.

#[cfg(unix)]
mod linux;

#[cfg(unix)]
fn main() -> linux::Result<()> {
    linux::main()
}

#[cfg(windows)]
fn main() {
    eprintln!("the time server runs on Linux only");
    std::process::exit(2);
}
