//! What `scripts/bench` makes of the output of load tools and of its own numbers. Nothing is measured here.

use std::process::{Command, Stdio};

/// The oldest that the harness runs on.
const PYTHON: &str = "import sys; sys.exit(sys.version_info < (3, 10))";

#[test]
fn the_harness_reads_every_load_tool_and_concludes_from_its_numbers() {
    let python = || {
        let mut command = Command::new("python3");
        command
            .current_dir(env!("CARGO_MANIFEST_DIR"))
            .env("PYTHONDONTWRITEBYTECODE", "1")
            .stdin(Stdio::null());
        command
    };
    if !python().args(["-c", PYTHON]).status().is_ok_and(|status| status.success()) {
        eprintln!("skipped: scripts/bench needs python3 from 3.10 on, which is not here");
        return;
    }
    let mut tests = python();
    tests.args(["-m", "unittest", "discover", "--start-directory", "scripts/tests"]);
    let ended = tests.args(["--top-level-directory", "scripts"]).output().expect("it ran a moment ago");
    let said = String::from_utf8_lossy(&ended.stderr);
    assert!(ended.status.success(), "{said}");
    assert!(said.contains("\nRan "), "no tests were found: {said}");
    assert!(!said.contains("Ran 0 tests"), "{said}");
}
