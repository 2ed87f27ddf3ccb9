//! Where and when a report is given: at the end, on demand, and one line of it once a second.

use std::io::{self, IsTerminal, Write};
use std::path::PathBuf;
use std::sync::Arc;
use std::thread;

use crate::board::Pulse;
use crate::cli::{Format, Serve, Settings};
use crate::environment::{Environment, Losses};
use crate::failure::{Failure, cause};
use crate::output;
use crate::report::{Report, Snapshot};

/// What is needed to give a report.
#[derive(Debug)]
pub struct Reporter {
    mode: &'static str,
    backlog: u32,
    lost_before: Losses,
    format: Format,
    /// Instead of standard error.
    file: Option<Arc<PathBuf>>,
    is_quiet: bool,
    /// Whether the meter writes over its own line.
    is_live: bool,
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
                Serve::Directory { .. } => "directory",
                Serve::Fixed { .. } => "fixed",
            },
            backlog: settings.backlog,
            lost_before: Losses::read(),
            format: settings.report,
            file,
            is_quiet: settings.quiet,
            is_live: io::stderr().is_terminal(),
        })
    }

    /// Reports at the end of the program.
    ///
    /// # Errors
    /// A sentence about a file that could not be written; the report is on standard error then.
    pub fn at_end(&self, workers: &[Snapshot]) -> Result<(), Failure> {
        let text = self.report(workers);
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
    /// that ends with it writes the report.
    pub fn on_demand(&self, workers: &[Snapshot]) {
        let text = self.report(workers);
        let file = self.file.clone();
        let give = move || {
            if let Some(error) = file.as_ref().and_then(|path| output::write(path, &text).err()) {
                output::say(&format!("{}\n", unwritable(&file.unwrap_or_default(), &error)));
                show(&text);
            } else if file.is_none() {
                show(&text);
            }
        };
        if let Err(error) = thread::Builder::new().spawn(give) {
            output::say(&format!("tared: cannot give the report: {}\n", cause(&error)));
        }
    }

    /// Shows the last second.
    pub fn meter(&self, pulse: &Pulse, workers: usize) {
        let line = pulse.line(workers);
        // A second that nobody reads is over anyway.
        output::say(&if self.is_live { format!("\r\x1b[K{line}") } else { format!("{line}\n") });
    }

    fn report(&self, workers: &[Snapshot]) -> String {
        let lost = Losses::read().since(self.lost_before);
        let report = Report::new(self.mode, workers, lost, Environment::read(self.backlog));
        match self.format {
            Format::Text => report.text(),
            Format::Json => report.json(),
        }
    }
}

fn show(text: &str) {
    // If nobody reads it, there is nobody to tell.
    let _ = io::stderr().lock().write_all(text.as_bytes());
}

fn unwritable(path: &std::path::Path, error: &io::Error) -> Failure {
    let path = path.display();
    Failure::refused(format!("cannot write --report-file '{path}': {} (try another file)", cause(error)))
}
