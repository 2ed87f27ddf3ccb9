//! Where and when a report is given: at the end, on demand, and one line of it once a second.

use std::io::{self, IsTerminal, Write};
use std::path::PathBuf;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::thread::{self, JoinHandle};

use crate::board::Pulse;
use crate::cli::{Format, Serve, Settings};
use crate::environment::{Environment, Losses};
use crate::failure::{Failure, cause};
use crate::output;
use crate::report::{Report, Snapshot};

/// Reports on demand that wait to be written behind each other, for a reader that has fallen behind. Who asks
/// for more is not answered: whoever asks by the clock would fill the memory with threads. Arbitrary.
const PENDING_MAX: usize = 16;

/// What is needed to give a report.
#[derive(Debug)]
pub struct Reporter {
    mode: &'static str,
    backlog: u32,
    /// CPUs on which this program might run when it began; a pinned worker sees its own only.
    cpus: usize,
    lost_before: Losses,
    format: Format,
    /// Instead of standard error.
    file: Option<Arc<PathBuf>>,
    is_quiet: bool,
    /// Whether the meter writes over its own line.
    is_live: bool,
    /// Whether such a line stands, and nothing behind it.
    has_line: AtomicBool,
    /// The thread that writes the last report on demand, behind those before it.
    writer: Mutex<Option<JoinHandle<()>>>,
    /// Of such threads.
    pending: Arc<AtomicUsize>,
}

impl Reporter {
    /// From now on.
    ///
    /// # Errors
    /// A sentence about a file that cannot be written.
    pub fn start(settings: &Settings) -> Result<Self, Failure> {
        let file = settings.report_file.clone().map(Arc::new);
        if let Some(path) = &file {
            output::check(path).map_err(|error| unwritable(path, &error))?;
        }
        Ok(Self {
            mode: match settings.serve {
                Serve::Directory(_) => "directory",
                Serve::Fixed { .. } => "fixed",
            },
            backlog: settings.backlog,
            cpus: thread::available_parallelism().map_or(0, usize::from),
            lost_before: Losses::read(),
            format: settings.report,
            file,
            is_quiet: settings.quiet,
            is_live: io::stderr().is_terminal(),
            has_line: AtomicBool::new(false),
            writer: Mutex::new(None),
            pending: Arc::default(),
        })
    }

    /// Reports at the end of the program, behind all reports on demand.
    ///
    /// # Errors
    /// A sentence about a file that could not be written; the report is on standard error then.
    pub fn at_end(&self, workers: &[Snapshot]) -> Result<(), Failure> {
        wait_for(self.writer().take());
        let text = self.report(workers);
        self.end_line();
        match &self.file {
            Some(path) => output::write(path, &text).map_err(|error| {
                show(&text);
                unwritable(path, &error)
            }),
            None if self.is_quiet => Ok(()),
            None => {
                show(&text);
                Ok(())
            }
        }
    }

    /// Reports in the middle of a run. Neither a slow disk nor a slow reader holds up the loop: a thread
    /// writes the report, behind those before it, and ends with it. (While there is but one thread the
    /// kernel need not count references to descriptors, which every call would pay for.)
    pub fn on_demand(&self, workers: &[Snapshot]) {
        let mut writer = self.writer();
        if self.pending.load(Ordering::Acquire) >= PENDING_MAX {
            return;
        }
        let (text, file, pending) = (self.report(workers), self.file.clone(), Arc::clone(&self.pending));
        self.end_line();
        let before = writer.take();
        let write = move || {
            wait_for(before);
            match file {
                None => show(&text),
                Some(path) => {
                    if let Err(error) = output::write(&path, &text) {
                        output::say(&format!("{}\n", unwritable(&path, &error)));
                        show(&text);
                    }
                }
            }
            pending.fetch_sub(1, Ordering::Release);
        };
        self.pending.fetch_add(1, Ordering::Relaxed);
        match thread::Builder::new().spawn(write) {
            Ok(handle) => *writer = Some(handle),
            Err(error) => {
                self.pending.fetch_sub(1, Ordering::Relaxed);
                output::say(&format!("tared: cannot give the report: {}\n", cause(&error)));
            }
        }
    }

    /// Shows the last second.
    pub fn meter(&self, pulse: &Pulse, workers: usize) {
        let line = pulse.line(workers);
        // A second that nobody reads is over anyway.
        output::say(&if self.is_live { format!("\r\x1b[K{line}") } else { format!("{line}\n") });
        self.has_line.store(self.is_live, Ordering::Relaxed);
    }

    /// What is said next begins a line of its own.
    fn end_line(&self) {
        if self.has_line.swap(false, Ordering::Relaxed) {
            output::say("\n");
        }
    }

    fn writer(&self) -> MutexGuard<'_, Option<JoinHandle<()>>> {
        self.writer.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn report(&self, workers: &[Snapshot]) -> String {
        let lost = Losses::read().since(self.lost_before);
        let report = Report::new(self.mode, workers, lost, Environment::read(self.backlog, self.cpus));
        match self.format {
            Format::Text => report.text(),
            Format::Json => report.json(),
        }
    }
}

fn wait_for(writer: Option<JoinHandle<()>>) {
    // It says itself what it cannot do.
    writer.map(JoinHandle::join);
}

fn show(text: &str) {
    // If nobody reads it, there is nobody to tell.
    let _ = io::stderr().lock().write_all(text.as_bytes());
}

fn unwritable(path: &std::path::Path, error: &io::Error) -> Failure {
    let path = path.display();
    Failure::refused(format!("cannot write --report-file '{path}': {} (try another file)", cause(error)))
}
