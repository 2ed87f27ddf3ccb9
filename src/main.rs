//! Turns a command line into a server, and a failure into one sentence and an exit status.

use std::io::{self, Write};
use std::process::ExitCode;

use tared::bind::backlog_cap;
use tared::failure::Failure;
use tared::server::Ended;
use tared::{cli, inherited, privilege, workers};

fn main() -> ExitCode {
    let settings = match cli::settings(std::env::args_os()) {
        Ok(settings) => settings,
        Err(cli::Stop::Text(text)) => {
            // A reader that has seen enough may be gone.
            let _ = io::stdout().write_all(text.as_bytes());
            return ExitCode::SUCCESS;
        }
        Err(cli::Stop::Failure(failure)) => return fail(&failure),
    };
    if let Some(cap) = backlog_cap(settings.backlog) {
        // Nobody may be reading the warnings; serving goes on.
        let _ = writeln!(
            io::stderr(),
            "tared: --backlog {}: the kernel caps it at {cap} (raise it with sysctl net.core.somaxconn)",
            settings.backlog
        );
    }
    let inherited = match inherited::take() {
        Ok(inherited) => inherited,
        Err(failure) => return fail(&failure),
    };
    match workers::serve(&settings, inherited, announce) {
        Ok(Ended::InOrder) => ExitCode::SUCCESS,
        Ok(Ended::AtOnce) => ExitCode::FAILURE,
        Err(failure) => fail(&failure),
    }
}

/// What scripts wait for: a line for each place where it listens, all of them at once.
fn announce(summary: &str, names: &[String]) {
    if privilege::is_root() {
        // Nobody may be reading the warnings; serving goes on.
        let _ = writeln!(io::stderr(), "tared: serving as root (give it up with --user NAME)");
    }
    let line = |name| format!("tared {} {summary} on {name}\n", env!("CARGO_PKG_VERSION"));
    let lines: String = names.iter().map(line).collect();
    let mut stdout = io::stdout().lock();
    // Nobody may be reading it; serving does not depend on it.
    let _ = stdout.write_all(lines.as_bytes()).and_then(|()| stdout.flush());
}

fn fail(failure: &Failure) -> ExitCode {
    // If nobody reads this either, the status still tells.
    let _ = writeln!(io::stderr(), "{failure}");
    ExitCode::from(failure.status())
}
