//! Wires the rooms; turns a start-up failure into one sentence and an exit status.

use std::io::{self, Write};
use std::os::unix::net::UnixStream;
use std::process::ExitCode;

use signal_hook::consts::{SIGINT, SIGTERM};
use tared::clock::Clock;
use tared::failure::{Failure, cause};
use tared::listener::{Listener, backlog_cap};
use tared::server::{Ended, Server};
use tared::{cli, open};

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
    match serve(&settings) {
        Ok(Ended::InOrder) => ExitCode::SUCCESS,
        Ok(Ended::AtOnce) => ExitCode::FAILURE,
        Err(failure) => fail(&failure),
    }
}

fn serve(settings: &cli::Settings) -> Result<Ended, Failure> {
    let clock = Clock::start();
    let (site, summary) = open::site(settings, &clock)?;
    let listener = Listener::bind(&settings.address, settings.backlog)?;
    if let Some(cap) = backlog_cap(settings.backlog) {
        // Nobody may be reading the warnings; serving goes on.
        let _ = writeln!(
            io::stderr(),
            "tared: --backlog {}: the kernel caps it at {cap} (raise it with sysctl net.core.somaxconn)",
            settings.backlog
        );
    }
    let url = format!("http://{}/", listener.address());
    let stop = stop_on_signals().map_err(|error| system("cannot handle signals", &error))?;
    let mut server = Server::new(listener, site, clock, mio::net::UnixStream::from_std(stop))
        .map_err(|error| system("cannot wait for events", &error))?;

    let mut stdout = io::stdout().lock();
    // Nobody may be reading the ready line; serving does not depend on it.
    let _ = writeln!(stdout, "tared {} {summary} on {url}", env!("CARGO_PKG_VERSION"))
        .and_then(|()| stdout.flush());

    server.run().map_err(|error| system("waiting for events failed", &error))
}

/// A socket from which a byte can be read for each SIGINT or SIGTERM. Having a handler is also what
/// makes them count for process 1.
fn stop_on_signals() -> io::Result<UnixStream> {
    let (receiver, sender) = UnixStream::pair()?;
    receiver.set_nonblocking(true)?;
    signal_hook::low_level::pipe::register(SIGINT, sender.try_clone()?)?;
    signal_hook::low_level::pipe::register(SIGTERM, sender)?;
    Ok(receiver)
}

fn system(what: &str, error: &io::Error) -> Failure {
    Failure::refused(format!("{what}: {}", cause(error)))
}

fn fail(failure: &Failure) -> ExitCode {
    // If nobody reads this either, the status still tells.
    let _ = writeln!(io::stderr(), "{failure}");
    ExitCode::from(failure.status())
}
