//! One loop, or several that share nothing but the address.
//!
//! A worker is a thread with a site, a cache and a listening socket of its own, so no request path
//! meets another; the kernel shares out the connections. The first worker runs on the main thread:
//! with one, which is the default, there is no other.

use std::io;
use std::sync::{Arc, Barrier, mpsc};
use std::thread;

use rustix::thread::{CpuSet, sched_getaffinity, sched_setaffinity};
use signal_hook::consts::SIGTERM;

use crate::address::Address;
use crate::bind;
use crate::cli::{Serve, Settings};
use crate::clock::Clock;
use crate::failure::{Failure, cause};
use crate::inherited::Inherited;
use crate::listener::Listener;
use crate::open;
use crate::privilege::{self, Identity, Named};
use crate::sandbox::Bounds;
use crate::server::{Ended, LISTENERS_MAX, Server};
use crate::signals;
use crate::socket_file::Access;

/// Serves as `settings` say, also at the sockets that are `inherited`, until a signal ends it. When every
/// worker accepts connections, `ready` is told what is served and at which URLs.
///
/// # Errors
/// A sentence about what could not be had at start, or about a worker whose waiting failed.
pub fn serve(
    settings: &Settings,
    inherited: Vec<Inherited>,
    ready: impl FnOnce(&str, &[String]),
) -> Result<Ended, Failure> {
    let count = match settings.workers {
        0 => thread::available_parallelism().map_err(|error| system("cannot count the cores", &error))?.get(),
        count => count,
    };
    let cpus = if settings.pin { allowed_cpus()? } else { Vec::new() };
    let cpu_of = |index: usize| (!cpus.is_empty()).then(|| cpus[index % cpus.len()]);

    // While the terminal can still be opened: the sandbox would not let us.
    let signals = signals::ending().map_err(|error| system("cannot handle signals", &error))?;

    // What is wrong with the site is said before anything listens, and a body is read only once: it may
    // come from a pipe.
    let settings = &open::read_body(settings.clone())?;
    let (_, summary) = open::site(settings, &Clock::start())?;
    let user = settings.user.as_ref().map(Named::identity).transpose()?;
    let access = Access { mode: settings.unix_mode, owner: user.as_ref().map(Identity::numbers) };
    let mut of_workers: Vec<Vec<Listener>> = (0..count).map(|_| Vec::new()).collect();
    let mut hand_out = |listeners: Vec<Listener>| {
        of_workers.iter_mut().zip(listeners).for_each(|(own, listener)| own.push(listener));
    };
    if inherited.is_empty() || !settings.addresses_are_default {
        for address in &settings.addresses {
            hand_out(bind::listeners(address, access, settings.backlog, count)?);
        }
    }
    for socket in inherited {
        hand_out(socket.listeners(count)?);
    }
    let places = of_workers[0].len();
    if places > LISTENERS_MAX {
        return Err(Failure::refused(format!(
            "cannot listen at {places} places: {LISTENERS_MAX} are the most (leave some out)"
        )));
    }

    // Before there is another thread: each would have to give up for itself.
    if let Some(user) = &user {
        user.assume()?;
    }
    privilege::renounce()?;
    settings.sandbox.enter(bounds(settings))?;

    let first = of_workers.remove(0);
    let names: Vec<String> = first.iter().map(|listener| listener.name().to_owned()).collect();

    let all_started = Arc::new(Barrier::new(count));
    let (reports, started) = mpsc::channel();
    let mut others = Vec::new();
    for (index, listeners) in (1..).zip(of_workers) {
        let (settings, reports, all_started) = (settings.clone(), reports.clone(), Arc::clone(&all_started));
        let cpu = cpu_of(index);
        let worker = move || {
            let server = start(&settings, listeners, signals, cpu);
            // Whoever waits for the reports has returned only if the whole program ends.
            let _ = reports.send(server.as_ref().map(|_| ()).map_err(Failure::clone));
            let mut server = server?;
            all_started.wait();
            run(&mut server)
        };
        others.push(thread::Builder::new().spawn(worker).map_err(|error| {
            Failure::refused(format!("cannot start --workers {count}: {} (try fewer)", cause(&error)))
        })?);
    }
    drop(reports);
    let mut server = start(settings, first, signals, cpu_of(0))?;
    for _ in 1..count {
        started.recv().map_err(|_| Failure::refused("a worker ended before it began"))??;
    }
    ready(&summary, &names);
    all_started.wait();

    let mut ended = run(&mut server);
    for worker in others {
        match worker.join().unwrap_or_else(|_| Err(Failure::refused("a worker has panicked"))) {
            Ok(Ended::InOrder) => {}
            other if ended.is_ok() => ended = other,
            _ => {}
        }
    }
    ended
}

/// What serving as `settings` say takes.
fn bounds(settings: &Settings) -> Bounds<'_> {
    let readable = match &settings.serve {
        Serve::Directory { path, .. } => vec![path.as_path()],
        Serve::Fixed { .. } => Vec::new(),
    };
    let removable = settings.addresses.iter().filter_map(Address::path).collect();
    Bounds { readable, writable: Vec::new(), removable }
}

/// Makes this thread a worker.
fn start(
    settings: &Settings,
    listeners: Vec<Listener>,
    signals: &[i32],
    cpu: Option<usize>,
) -> Result<Server, Failure> {
    if let Some(cpu) = cpu {
        let mut set = CpuSet::new();
        set.set(cpu);
        sched_setaffinity(None, &set).map_err(|error| system("cannot --pin a worker", &error.into()))?;
    }
    let clock = Clock::start();
    let (site, _) = open::site(settings, &clock)?;
    let stop = signals::bytes_of(signals).map_err(|error| system("cannot handle signals", &error))?;
    Server::new(listeners, site, clock, mio::net::UnixStream::from_std(stop)).map_err(|error| {
        let advice = "allow more open files with ulimit -n, or try fewer --workers";
        Failure::refused(format!("cannot wait for events: {} ({advice})", cause(&error)))
    })
}

/// Serves; if the waiting itself fails, the other workers are asked to end in order.
fn run(server: &mut Server) -> Result<Ended, Failure> {
    server.run().map_err(|error| {
        // The failure is told in any case.
        let _ = signal_hook::low_level::raise(SIGTERM);
        system("waiting for events failed", &error)
    })
}

/// The CPUs on which this program may run.
fn allowed_cpus() -> Result<Vec<usize>, Failure> {
    let set = sched_getaffinity(None).map_err(|error| system("cannot --pin workers", &error.into()))?;
    Ok((0..CpuSet::MAX_CPU).filter(|&cpu| set.is_set(cpu)).collect())
}

fn system(what: &str, error: &io::Error) -> Failure {
    Failure::refused(format!("{what}: {}", cause(error)))
}
