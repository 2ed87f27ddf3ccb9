//! One loop, or several that share nothing but the address.
//!
//! A worker is a thread with a site, a cache and a listening socket of its own, so no request path
//! meets another; the kernel shares out the connections. The first worker runs on the main thread:
//! with one, which is the default, there is no other.

use std::io;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Barrier, mpsc};
use std::thread;

use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};
use rustix::thread::{CpuSet, sched_setaffinity};
use signal_hook::consts::{SIGHUP, SIGTERM, SIGUSR1, SIGXFSZ};

use crate::address::Address;
use crate::bind;
use crate::board::Board;
use crate::budget::Budget;
use crate::cli::{Serve, Settings};
use crate::clock::Clock;
use crate::environment::allowed_cpus;
use crate::failure::{Failure, cause};
use crate::inherited::Inherited;
use crate::listener::Listener;
use crate::log::{self, Log, Share};
use crate::log_file::{LogFile, Place};
use crate::open;
use crate::pid_file::PidFile;
use crate::pool::RETURNED_MIN;
use crate::privilege::{self, Identity, Named};
use crate::reach;
use crate::ready::Ready;
use crate::report::Snapshot;
use crate::reporter::Reporter;
use crate::sandbox::Bounds;
use crate::server::{Ended, LISTENERS_MAX, Limits, Occasion, Orders, Server};
use crate::signals;
use crate::socket_file::Access;
use crate::sys;

/// What all workers know of each other.
#[derive(Debug)]
struct Crew {
    board: Board,
    reporter: Reporter,
    count: usize,
    is_over: AtomicBool,
}

/// Serves as `settings` say, also at the sockets that are `inherited`, until a signal ends it or its bound
/// is reached, and reports. When every worker accepts connections, `announce` is told.
///
/// # Errors
/// A sentence about what could not be had at start, about a worker whose waiting failed, or about a
/// report that could not be put where it belongs.
pub fn serve(
    settings: &Settings,
    inherited: Vec<Inherited>,
    announce: impl FnOnce(&Ready<'_>) -> Result<(), Failure>,
) -> Result<Ended, Failure> {
    let count = match settings.workers {
        0 => thread::available_parallelism().map_err(|error| system("cannot count the cores", &error))?.get(),
        count => count,
    };
    let cpus = match settings.pin {
        true => allowed_cpus().map_err(|error| system("cannot --pin workers", &error))?,
        false => Vec::new(),
    };
    let descriptors = raise_descriptors();
    sys::map_allocations_from(RETURNED_MIN);
    let cpu_of = |index: usize| (!cpus.is_empty()).then(|| cpus[index % cpus.len()]);

    let log_path = settings.log.as_ref().and_then(|log| log.place.path());
    let stdout = settings.log.as_ref().filter(|log| log.place == Place::StandardOutput);
    let stdout = stdout.map(|_| LogFile::standard_output()).transpose()?;

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

    // Before there are privileges to give up, which the browser needs for a sandbox of its own.
    if settings.open {
        reach::open_browser(&of_workers[0]);
    }
    // While the terminal can still be opened: the sandbox would not let us. And behind the browser, which would
    // inherit what is ignored.
    let signals =
        signals::ending(log_path.is_some()).map_err(|error| system("cannot handle signals", &error))?;
    let urls: Vec<String> = of_workers[0].iter().flat_map(reach::urls).collect();

    // Before there is another thread: each would have to give up for itself.
    if let Some(user) = &user {
        user.assume()?;
    }
    privilege::renounce()?;
    // By whom it is opened anew later, and never by root in a directory of somebody else's.
    let log_file = log_path.map(LogFile::open).transpose()?.or(stdout);
    let logs = shared_out(settings, log_file, count)?;
    settings.sandbox.enter(bounds(settings))?;

    let first = of_workers.remove(0);
    let names: Vec<String> = first.iter().map(|listener| listener.name().to_owned()).collect();
    let address = first.iter().find_map(Listener::address);
    let ready = Ready { summary: &summary, names: &names, urls: &urls, address, serve: &settings.serve };
    let reporter = Reporter::start(settings)?;
    let crew = Arc::new(Crew { board: Board::new(count), reporter, count, is_over: AtomicBool::new(false) });
    let budget = settings.max_requests.map(Budget::new);
    let limits = Limits {
        connections: settings.max_connections.unwrap_or_else(|| connections_max(descriptors, count)),
        requests_each: settings.requests_each,
        patience: settings.patience,
        grace: settings.grace,
    };

    let all_started = Arc::new(Barrier::new(count));
    let (reports, started) = mpsc::channel();
    let mut others = Vec::new();
    let mut logs = logs.into_iter();
    let first_log = logs.next().flatten();
    for (index, (listeners, log)) in (1..).zip(of_workers.into_iter().zip(logs)) {
        let (settings, reports, all_started) = (settings.clone(), reports.clone(), Arc::clone(&all_started));
        let (crew, budget, cpu) = (Arc::clone(&crew), budget.clone(), cpu_of(index));
        let worker = move || {
            let server = start(&settings, listeners, log, signals, budget, limits, cpu);
            // Whoever waits for the reports has returned only if the whole program ends.
            let _ = reports.send(server.as_ref().map(|_| ()).map_err(Failure::clone));
            let mut server = server?;
            all_started.wait();
            run(&mut server, index, &crew)
        };
        others.push(thread::Builder::new().spawn(worker).map_err(|error| {
            Failure::refused(format!("cannot start --workers {count}: {} (try fewer)", cause(&error)))
        })?);
    }
    drop(reports);
    let mut server = start(settings, first, first_log, signals, budget, limits, cpu_of(0))?;
    for _ in 1..count {
        started.recv().map_err(|_| Failure::refused("a worker ended before it began"))??;
    }
    let pid_file = settings.pid_file.as_deref().map(PidFile::write).transpose()?;
    announce(&ready)?;
    all_started.wait();

    let mut snapshots = Vec::with_capacity(count);
    let mut outcome = Ok(Ended::InOrder);
    let first = run(&mut server, 0, &crew);
    let joined = others
        .into_iter()
        .map(|worker| worker.join().unwrap_or_else(|_| Err(Failure::refused("a worker has panicked"))));
    for ended in std::iter::once(first).chain(joined) {
        let ended = ended.map(|(ended, snapshot)| {
            snapshots.push(snapshot);
            ended
        });
        if outcome == Ok(Ended::InOrder) {
            outcome = ended;
        }
    }
    drop(pid_file);
    // Nobody listens for them any more, and whoever reads the report may keep us waiting.
    signals.iter().for_each(|&signal| sys::restore(signal));
    crew.reporter.at_end(&snapshots)?;
    outcome
}

/// Descriptors that are no connections: files that are open, and what the loop itself needs. Where there
/// are few, a quarter of them.
const RESERVE: u64 = 96;

/// Connections of one of `workers` among which `descriptors` are shared out.
fn connections_max(descriptors: u64, workers: usize) -> usize {
    let each = descriptors / workers as u64;
    usize::try_from(each - RESERVE.min(each / 4)).unwrap_or(usize::MAX).max(1)
}

/// Allows as many descriptors as the system lets us have; how many those are.
fn raise_descriptors() -> u64 {
    let Rlimit { current, maximum } = getrlimit(Resource::Nofile);
    let raised = Rlimit { current: maximum, maximum };
    let allowed = if setrlimit(Resource::Nofile, raised).is_ok() { maximum } else { current };
    allowed.unwrap_or(u64::MAX)
}

/// For each worker what it writes its log with, if there is one.
fn shared_out(
    settings: &Settings,
    file: Option<LogFile>,
    count: usize,
) -> Result<Vec<Option<Share>>, Failure> {
    let (Some(logging), Some(file)) = (&settings.log, file) else {
        return Ok((0..count).map(|_| None).collect());
    };
    // setrlimit(2): a file that may not grow is an error of one write, as a full disk is.
    sys::ignore(SIGXFSZ).map_err(|error| system("cannot handle signals", &error))?;
    Ok(log::shared_out(logging, file, count)?.into_iter().map(Some).collect())
}

/// What serving as `settings` say takes; the kernel's part of a report stands in /proc.
fn bounds(settings: &Settings) -> Bounds<'_> {
    let readable = match &settings.serve {
        Serve::Directory(directory) => vec![directory.path.as_path()],
        Serve::Fixed { .. } => Vec::new(),
    };
    let readable = readable.into_iter().chain([Path::new("/proc")]).collect();
    let writable = [&settings.report_file, &settings.ready_file, &settings.pid_file].into_iter().flatten();
    // A log that is a pipe or a device is not opened again.
    let log = settings.log.as_ref().and_then(|log| log.place.path()).filter(|path| path.is_file());
    let writable = writable.map(PathBuf::as_path).chain(log).collect();
    let removable = settings.addresses.iter().filter_map(Address::path).collect();
    Bounds { readable, writable, removable }
}

/// Makes this thread a worker.
fn start(
    settings: &Settings,
    listeners: Vec<Listener>,
    log: Option<Share>,
    signals: &[i32],
    budget: Option<Budget>,
    limits: Limits,
    cpu: Option<usize>,
) -> Result<Server, Failure> {
    if let Some(cpu) = cpu {
        let mut set = CpuSet::new();
        set.set(cpu);
        sched_setaffinity(None, &set).map_err(|error| system("cannot --pin a worker", &error.into()))?;
    }
    let clock = Clock::with_lifetime(settings.policy.lifetime());
    let (site, _) = open::site(settings, &clock)?;
    let bytes_of = |signals: &[i32]| {
        let socket = signals::bytes_of(signals).map_err(|error| system("cannot handle signals", &error))?;
        Ok(mio::net::UnixStream::from_std(socket))
    };
    let log = log.zip(settings.log.clone());
    let reopens = log.as_ref().is_some_and(|(_, logging)| logging.place.path().is_some());
    let orders = Orders {
        log: log.map(|(share, logging)| Log::new(logging, share, &clock)),
        reopen: reopens.then(|| bytes_of(&[SIGHUP])).transpose()?,
        stop: bytes_of(signals)?,
        report: bytes_of(&[SIGUSR1])?,
        duration: settings.duration,
        budget,
        is_metered: settings.meter,
        limits,
    };
    Server::new(listeners, site, clock, orders).map_err(|error| {
        let advice = "allow more open files with ulimit -n, or try fewer --workers";
        Failure::refused(format!("cannot wait for events: {} ({advice})", cause(&error)))
    })
}

/// Serves, and does on the way what has to be done; what it has done in the end. If the waiting itself
/// fails, the other workers are asked to end in order.
fn run(server: &mut Server, index: usize, crew: &Crew) -> Result<(Ended, Snapshot), Failure> {
    // The end is asked for as it is from outside, which reaches all workers.
    let end_all = || {
        if !crew.is_over.swap(true, Ordering::Relaxed) {
            // It fails for no signal that there is.
            let _ = signal_hook::low_level::raise(SIGTERM);
        }
    };
    loop {
        match server.run() {
            Ok(Occasion::Report(count)) => {
                for _ in 0..count {
                    if let Some(snapshots) = crew.board.post(index, server.snapshot()) {
                        crew.reporter.on_demand(&snapshots);
                    }
                }
            }
            Ok(Occasion::Second(now, pulse)) => {
                if let Some(sum) = crew.board.beat(index, now, pulse) {
                    crew.reporter.meter(&sum, crew.count);
                }
            }
            Ok(Occasion::Over) => end_all(),
            Ok(Occasion::Ended(ended)) => {
                let snapshot = server.snapshot();
                if let Some(snapshots) = crew.board.leave(index, snapshot.clone()) {
                    crew.reporter.on_demand(&snapshots);
                }
                return Ok((ended, snapshot));
            }
            Err(error) => {
                end_all();
                return Err(system("waiting for events failed", &error));
            }
        }
    }
}

fn system(what: &str, error: &io::Error) -> Failure {
    Failure::refused(format!("{what}: {}", cause(error)))
}
