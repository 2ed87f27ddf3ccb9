//! Turns a command line into a server, and a failure into one sentence and an exit status.

use std::io::{self, Write};
use std::process::ExitCode;

use tared::bind::backlog_cap;
use tared::cli::Settings;
use tared::failure::{Failure, cause};
use tared::ready::Heralds;
use tared::server::Ended;
use tared::{cli, inherited, privilege, workers};

fn main() -> ExitCode {
    let settings = match cli::settings(std::env::args_os()) {
        Ok(settings) => settings,
        Err(cli::Stop::Text(text)) => {
            let mut stdout = anstream::stdout();
            return match stdout.write_all(&text).and_then(|()| stdout.flush()) {
                // A reader that has seen enough may be gone.
                Err(error) if error.kind() != io::ErrorKind::BrokenPipe => {
                    let cause = cause(&error);
                    fail(&Failure::refused(format!(
                        "cannot write to standard output: {cause} (name another file)"
                    )))
                }
                _ => ExitCode::SUCCESS,
            };
        }
        Err(cli::Stop::Compress(compression)) => {
            return compression.run().map_or_else(|failure| fail(&failure), |()| ExitCode::SUCCESS);
        }
        Err(cli::Stop::Check(check)) => {
            return check.ask().map_or_else(|failure| fail(&failure), |()| ExitCode::SUCCESS);
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
    match serve(&settings) {
        Ok(Ended::InOrder) => ExitCode::SUCCESS,
        Ok(Ended::AtOnce) => ExitCode::FAILURE,
        Err(failure) => fail(&failure),
    }
}

fn serve(settings: &Settings) -> Result<Ended, Failure> {
    // Both before any descriptor is opened that is not theirs.
    let inherited = inherited::take()?;
    let heralds = Heralds::new(settings.ready_file.clone(), settings.ready_fd)?;
    workers::serve(settings, inherited, |ready| {
        heralds.tell(ready)?;
        if privilege::is_root() {
            // Nobody may be reading the warnings; serving goes on.
            let _ = writeln!(io::stderr(), "tared: serving as root (give it up with --user NAME)");
        }
        Ok(())
    })
}

fn fail(failure: &Failure) -> ExitCode {
    // If nobody reads this either, the status still tells.
    let _ = writeln!(io::stderr(), "{failure}");
    ExitCode::from(failure.status())
}
