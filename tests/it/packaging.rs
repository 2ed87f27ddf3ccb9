//! What is packaged, and with what.

use std::fs;
use std::path::Path;
use std::process::Command;

use crate::generated::is_there;
use crate::server::{run, skip, temporary};

fn repository() -> &'static Path {
    Path::new(env!("CARGO_MANIFEST_DIR"))
}

/// The crate is what it takes to build tared and to know what it is.
#[test]
fn the_package_has_no_clutter() {
    let args = ["package", "--list", "--allow-dirty", "--offline", "--locked"];
    let output = run(Command::new(env!("CARGO")).args(args).current_dir(repository()));
    let list = String::from_utf8(output.stdout).expect("text");
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    let by_cargo = ["Cargo.toml", "Cargo.toml.orig", "Cargo.lock", ".cargo_vcs_info.json"];
    let told = ["README.md", "CHANGELOG.md", "SECURITY.md", "LICENSE-APACHE", "LICENSE-MIT"];
    for name in list.lines().filter(|name| !by_cargo.contains(name) && !told.contains(name)) {
        assert!(name.starts_with("src/") && name.ends_with(".rs"), "{name} is in the package");
    }
    for name in told.into_iter().chain(["Cargo.lock", "src/main.rs", "src/lib.rs"]) {
        assert!(list.lines().any(|listed| listed == name), "{name} is not in {list}");
    }
}

#[test]
fn systemd_understands_the_units() {
    if !is_there("systemd-analyze") {
        return skip("systemd_understands_the_units", "systemd-analyze is not installed");
    }
    let dir = temporary();
    for name in ["tared.service", "tared.socket"] {
        let unit = fs::read_to_string(repository().join("scripts/packaging").join(name)).expect("a unit");
        // What is not installed here would be missed.
        let unit = unit.replace("/usr/bin/tared", env!("CARGO_BIN_EXE_tared"));
        let unit = unit.replace("Documentation=man:tared(1)\n", "");
        fs::write(dir.path().join(name), unit).expect("it is ours");
    }
    let units = ["tared.service", "tared.socket"].map(|name| dir.path().join(name));
    let output = run(Command::new("systemd-analyze").arg("verify").args(units));
    let said = String::from_utf8_lossy(&output.stderr);
    // Of machines without what it needs, and of other units there.
    let of_ours: Vec<&str> = said.lines().filter(|line| line.contains("tared")).collect();
    assert_eq!(of_ours, [""; 0]);
}
