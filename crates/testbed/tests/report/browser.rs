//! The page in a browser: Debian's Chromium without a window (`cargo xtask deps` installs it).

use crate::page::{rows, section};
use crate::sample::experiment;
use std::path::{Path, PathBuf};
use std::process::Command;
use tickwire_testbed::report::html;
use tickwire_testbed::time;

const BROWSER: &str = "chromium";

/// A file for the browser. It is kept for inspection.
fn file(name: &str, html: &str) -> PathBuf {
    let path = Path::new(env!("CARGO_TARGET_TMPDIR")).join(name);
    std::fs::write(&path, html).unwrap();
    path
}

/// The page as the browser parsed it on a screen of this width, and the browser's messages.
fn shown(page: &Path, width: u32) -> (String, Vec<String>) {
    let home = tempfile::tempdir().unwrap();
    let output = Command::new(BROWSER)
        .args([
            "--headless",
            "--no-sandbox",
            "--disable-gpu",
            "--hide-scrollbars",
            "--enable-logging=stderr",
            "--dump-dom",
        ])
        .arg(format!("--window-size={width},900"))
        .arg(format!("--user-data-dir={}", home.path().display()))
        .arg(format!("file://{}", page.display()))
        .output()
        .expect("chromium is needed (cargo xtask deps)");
    let said = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{said}");
    let complaints = said.lines().filter(|line| line.contains("CONSOLE")).map(str::to_owned).collect();
    (String::from_utf8(output.stdout).unwrap(), complaints)
}

#[test]
fn a_browser_shows_the_page_without_complaint_and_with_the_same_numbers() {
    let html = html(&experiment());
    let (seen, complaints) = shown(&file("report.html", &html), 1280);
    assert!(complaints.is_empty(), "{complaints:?}");
    for table in [
        "All streams",
        "How far the clock was off",
        "When messages are sent: what they wait for each other",
        "More messages: where it breaks",
    ] {
        assert_eq!(rows(section(&seen, table)), rows(section(&html, table)), "{table}");
    }
    for element in ["<svg", "<figure", "<circle", "<details", "<td"] {
        assert_eq!(seen.matches(element).count(), html.matches(element).count(), "{element}");
    }
}

#[test]
fn no_page_is_wider_than_a_phone() {
    // The browser's least window is wider than a phone, but a frame can be as narrow. Only a script
    // can read the page's width in it.
    let experiment = experiment();
    let clock = experiment.time.as_ref().unwrap().as_ref().unwrap();
    for (name, page) in [("phone.html", html(&experiment)), ("phone-time.html", time::html(clock))] {
        let page = page.replace("<details>", "<details open>");
        let framed = page.replace('&', "&amp;").replace('"', "&quot;");
        let ask = "document.title = this.contentDocument.documentElement.scrollWidth + ' of ' + this.clientWidth";
        let phone = format!(
            "<!doctype html><title></title><iframe style=\"width: 390px; height: 800px; border: 0\" onload=\"{ask}\" srcdoc=\"{framed}\"></iframe>"
        );
        let (seen, complaints) = shown(&file(name, &phone), 800);
        assert!(complaints.is_empty(), "{complaints:?}");
        assert!(seen.contains("<title>390 of 390</title>"), "{name}: {}", &seen[..200]);
    }
}
