//! `launch [--require] LIBRARY PROGRAM [ARG]...`: starts a program with a library, says how the
//! library was entered, and passes the program's exit code on.

#[cfg(windows)]
fn main() {
    use std::time::Duration;
    use tickwire_launcher_windows::Launch;

    let mut words = std::env::args_os().skip(1).peekable();
    let require = words.next_if(|word| word == "--require").is_some();
    let (Some(library), Some(program)) = (words.next(), words.next()) else {
        eprintln!("usage: launch [--require] LIBRARY PROGRAM [ARG]...");
        std::process::exit(2);
    };
    let name = program.to_string_lossy().into_owned();
    let launch = Launch {
        program: program.into(),
        arguments: words.collect(),
        library: library.into(),
        require,
        ..Launch::default()
    };
    let program = match launch.start() {
        Ok(program) => program,
        Err(error) => {
            eprintln!("launch: {name}: {error}");
            std::process::exit(error.exit_code().into());
        }
    };
    match program.entered() {
        Ok(way) => {
            let state = program.wait_until_ready(Duration::from_secs(1));
            eprintln!("launch: {name}: the library was entered {way}: {state:?}");
        }
        Err(error) => eprintln!("launch: {name} runs without the library: {error}"),
    }
    match program.wait() {
        Ok(code) => std::process::exit(code.cast_signed()),
        Err(error) => {
            eprintln!("launch: cannot wait for {name}: {error}");
            std::process::exit(125);
        }
    }
}

#[cfg(not(windows))]
fn main() {
    eprintln!("launch: starts programs of Windows, on Windows");
}
