//! Files → their siblings with a content coding, written once instead of compressed for each request.

use std::cmp::Reverse;
use std::ffi::OsString;
use std::fmt::Write as _;
use std::fs::{self, File, FileTimes, Metadata, OpenOptions};
use std::io::{self, Read, Write};
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::{MetadataExt, OpenOptionsExt, fchown};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread;

use bytesize::ByteSize;
use indicatif::{ProgressBar, ProgressDrawTarget, ProgressStyle};
use walkdir::{DirEntry, WalkDir};

use crate::coding::Coding;
use crate::failure::{Failure, cause, one_line};
use crate::mime::Types;
use crate::signals;
use crate::target;

/// Bytes from which on brotli is asked for less: at its highest quality it takes two seconds for each.
const BROTLI_BEST_MAX: u64 = 8 * 1024 * 1024;

/// What is to be compressed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Compression {
    /// The directory.
    pub dir: PathBuf,
    /// Whether only what goes wrong is said.
    pub is_quiet: bool,
}

/// What became of one sibling.
#[derive(Debug)]
enum Outcome {
    /// It was written.
    Written { before: u64, after: u64 },
    /// It is not older than its file.
    UpToDate,
    /// It would not be smaller; one that was outdated is gone.
    NotSmaller,
    /// It could not be written, in a sentence.
    Failed(String),
    /// A signal came before it was done.
    Stopped,
}

/// What became of all siblings with one coding.
#[derive(Clone, Copy, Debug, Default)]
struct Sum {
    written: u64,
    before: u64,
    after: u64,
    up_to_date: u64,
    not_smaller: u64,
    failed: u64,
}

impl Compression {
    /// Writes what is missing or outdated; says on standard output what was done, and on standard error
    /// what went wrong.
    ///
    /// # Errors
    /// A sentence if the directory cannot be read, a sibling could not be written (each was told by then), or
    /// a signal ended it.
    pub fn run(&self) -> Result<(), Failure> {
        let is_stopped = Arc::new(AtomicBool::new(false));
        let register = |signal: &i32| signal_hook::flag::register(*signal, Arc::clone(&is_stopped)).map(drop);
        signals::ending(false)
            .and_then(|ending| ending.iter().try_for_each(register))
            .map_err(|error| Failure::refused(format!("cannot handle signals: {}", cause(&error))))?;
        let (files, troubles) = self.files()?;
        let bar = ProgressBar::with_draw_target(
            None,
            match self.is_quiet {
                true => ProgressDrawTarget::hidden(),
                // Of itself it draws on terminals only.
                false => ProgressDrawTarget::stderr(),
            },
        );
        bar.set_length(files.len() as u64 * Coding::ALL.len() as u64);
        if let Ok(style) = ProgressStyle::with_template("{bar:30} {pos}/{len} {elapsed} {wide_msg}") {
            bar.set_style(style);
        }
        let say = |sentence: &str| {
            // If nobody reads it, the status still tells.
            bar.suspend(|| _ = writeln!(io::stderr(), "tared: {}", one_line(sentence)));
        };
        troubles.iter().for_each(|sentence| say(sentence));

        let sums = Mutex::new([Sum::default(); Coding::ALL.len()]);
        let tasks = files.iter().flat_map(|file| Coding::ALL.map(|coding| (file, coding)));
        let tasks = Mutex::new(tasks);
        let work = || {
            loop {
                let next = tasks.lock().unwrap_or_else(PoisonError::into_inner).next();
                let Some((file, coding)) = next.filter(|_| !is_stopped.load(Ordering::Relaxed)) else {
                    return;
                };
                bar.set_message(one_line(&file.display().to_string()));
                let outcome = compress(file, coding, &is_stopped).unwrap_or_else(|error| {
                    Outcome::Failed(format!("cannot compress '{}': {}", file.display(), cause(&error)))
                });
                bar.inc(1);
                if let Outcome::Failed(sentence) = &outcome {
                    say(sentence);
                }
                sums.lock().unwrap_or_else(PoisonError::into_inner)[coding as usize].add(&outcome);
            }
        };
        let count = thread::available_parallelism().map_or(1, |count| count.get());
        thread::scope(|scope| (0..count).for_each(|_| _ = scope.spawn(work)));
        bar.finish_and_clear();

        let sums = sums.into_inner().unwrap_or_else(PoisonError::into_inner);
        if !self.is_quiet {
            // What was done is done, whether somebody reads it or not.
            let _ = io::stdout().write_all(summary(files.len(), &sums).as_bytes());
        }
        if is_stopped.load(Ordering::Relaxed) {
            return Err(Failure::refused(
                "stopped by a signal (what is written already is skipped the next time)",
            ));
        }
        match (troubles.len(), sums.iter().map(|sum| sum.failed).sum::<u64>()) {
            (0, 0) => Ok(()),
            (troubles, failed) => Err(Failure::refused(format!(
                "not everything is compressed: {failed} failed, {troubles} could not be looked at (see above)"
            ))),
        }
    }

    /// The files that are worth it, and a sentence for each place where could not be looked.
    fn files(&self) -> Result<(Vec<PathBuf>, Vec<String>), Failure> {
        let refuse = |error: &io::Error| {
            let dir = self.dir.display();
            Failure::refused(format!(
                "cannot compress what is in '{dir}': {} (name a directory)",
                cause(error)
            ))
        };
        fs::read_dir(&self.dir).map_err(|error| refuse(&error))?;
        let is_shown =
            |entry: &DirEntry| entry.depth() == 0 || !target::is_hidden(entry.file_name().as_bytes());
        let (mut files, mut troubles) = (Vec::new(), Vec::new());
        for entry in WalkDir::new(&self.dir).sort_by_file_name().into_iter().filter_entry(is_shown) {
            match entry {
                Ok(entry) if entry.file_type().is_file() && is_worth_it(entry.file_name().as_bytes()) => {
                    files.push((entry.metadata().map_or(0, |metadata| metadata.len()), entry.into_path()));
                }
                Ok(_) => {}
                Err(error) => {
                    let path = error.path().unwrap_or(&self.dir).display().to_string();
                    let error = error.into_io_error().unwrap_or_else(|| io::ErrorKind::Other.into());
                    troubles.push(format!("cannot look at '{path}': {}", cause(&error)));
                }
            }
        }
        // The largest first, so that none of them is begun when all else is done.
        files.sort_by_key(|(len, _)| Reverse(*len));
        Ok((files.into_iter().map(|(_, path)| path).collect(), troubles))
    }
}

impl Sum {
    fn add(&mut self, outcome: &Outcome) {
        match outcome {
            Outcome::Written { before, after } => {
                self.written += 1;
                self.before += before;
                self.after += after;
            }
            Outcome::UpToDate => self.up_to_date += 1,
            Outcome::NotSmaller => self.not_smaller += 1,
            Outcome::Failed(_) => self.failed += 1,
            Outcome::Stopped => {}
        }
    }
}

fn summary(files: usize, sums: &[Sum; Coding::ALL.len()]) -> String {
    let mut lines =
        format!("{files} {} of a type that can be compressed\n", if files == 1 { "file" } else { "files" });
    for (coding, sum) in Coding::ALL.into_iter().zip(sums) {
        let Sum { written, up_to_date, not_smaller, failed, .. } = sum;
        let [before, after] =
            [sum.before, sum.after].map(|bytes| ByteSize(bytes).display().iec().to_string());
        let sizes = if *written > 0 { format!(" ({before} to {after})") } else { String::new() };
        let failed = if *failed > 0 { format!(", {failed} failed") } else { String::new() };
        // Writing to a String never fails.
        let _ = writeln!(
            lines,
            "{:<4}  {written} written{sizes}, {up_to_date} up to date, {not_smaller} would not be smaller{failed}",
            coding.name()
        );
    }
    lines
}

/// Whether a file called `name` is no sibling itself, and of a type that has something to be left out.
fn is_worth_it(name: &[u8]) -> bool {
    !Coding::ALL.iter().any(|coding| name.ends_with(coding.suffix().as_bytes()))
        && is_compressible(&Types::default().of(name))
}

/// Whether content of this type is not compressed as it is.
fn is_compressible(content_type: &str) -> bool {
    let essence = content_type.split(';').next().unwrap_or_default().trim_ascii();
    let known = [
        "application/javascript",
        "application/json",
        "application/rtf",
        "application/sql",
        "application/toml",
        "application/vnd.ms-fontobject",
        "application/wasm",
        "application/x-javascript",
        "application/x-ndjson",
        "application/x-sh",
        "application/x-tar",
        "application/xml",
        "font/otf",
        "font/ttf",
        "image/bmp",
        "image/vnd.microsoft.icon",
        "image/x-icon",
    ];
    essence.starts_with("text/")
        || essence.ends_with("+json")
        || essence.ends_with("+xml")
        || known.contains(&essence)
}

/// Makes the sibling of `path` with `coding`, unless there is one that is not older. It gets its name when it is
/// whole, with the time, the permissions and, where that is allowed, the owner of its file.
fn compress(path: &Path, coding: Coding, is_stopped: &AtomicBool) -> io::Result<Outcome> {
    let sibling =
        PathBuf::from([path.as_os_str(), coding.suffix().as_ref()].into_iter().collect::<OsString>());
    let file = OpenOptions::new().read(true).custom_flags(libc::O_NOFOLLOW | libc::O_NONBLOCK).open(path)?;
    let metadata = file.metadata()?;
    let changed = || {
        let path = path.display();
        Ok(Outcome::Failed(format!("'{path}' changed while it was compressed (run it again)")))
    };
    if !metadata.is_file() {
        return changed();
    }
    let earlier = fs::symlink_metadata(&sibling).ok();
    if let Some(earlier) = &earlier {
        if !earlier.is_file() {
            let (path, name) = (path.display(), sibling.display());
            return Ok(Outcome::Failed(format!(
                "cannot compress '{path}': '{name}' is something else than a file (move it away)"
            )));
        }
        if modified(earlier) >= modified(&metadata) {
            return Ok(Outcome::UpToDate);
        }
    }
    let parent = path.parent().unwrap_or(Path::new("."));
    let mut beside = tempfile::Builder::new().prefix(".tared-").tempfile_in(parent)?;
    // A file that grows all the time has an end, too.
    let mut from = Until { file: &file, is_stopped }.take(metadata.len());
    let encoded = encode(coding, &mut from, beside.as_file_mut(), metadata.len());
    if encoded.is_err() && is_stopped.load(Ordering::Relaxed) {
        return Ok(Outcome::Stopped);
    }
    // By its name: another file may have taken it.
    if identity(&fs::symlink_metadata(path)?) != identity(&metadata) {
        return changed();
    }
    encoded?;
    let (before, after) = (metadata.len(), beside.as_file().metadata()?.len());
    if after >= before {
        if earlier.is_some() {
            fs::remove_file(&sibling)?;
        }
        return Ok(Outcome::NotSmaller);
    }
    // Who is not root gives no file away; the group first, while it is ours.
    let _ = fchown(beside.as_file(), None, Some(metadata.gid()));
    let _ = fchown(beside.as_file(), Some(metadata.uid()), None);
    beside.as_file().set_permissions(metadata.permissions())?;
    beside.as_file().set_times(FileTimes::new().set_modified(metadata.modified()?))?;
    // Else a crash could leave an empty sibling that looks up to date.
    beside.as_file().sync_data()?;
    beside.persist(&sibling)?;
    Ok(Outcome::Written { before, after })
}

/// Writes the `len` bytes that are read, with `coding`.
fn encode(coding: Coding, from: &mut impl Read, to: &mut File, len: u64) -> io::Result<()> {
    match coding {
        Coding::Zstd => {
            let mut encoder = zstd::Encoder::new(to, 19)?;
            // The header says it, so that whoever decodes keeps no larger window than that; of itself the level
            // takes 8 MiB, which is also what RFC 9659 allows.
            encoder.set_pledged_src_size(Some(len))?;
            io::copy(from, &mut encoder)?;
            encoder.finish().map(drop)
        }
        Coding::Brotli => {
            let quality = if len > BROTLI_BEST_MAX { 9 } else { 11 };
            let params = brotli::enc::BrotliEncoderParams { quality, lgwin: 22, ..Default::default() };
            let params = brotli::enc::BrotliEncoderParams { size_hint: len as usize, ..params };
            brotli::BrotliCompress(from, to, &params).map(drop)
        }
        Coding::Gzip => {
            let mut encoder = flate2::write::GzEncoder::new(to, flate2::Compression::best());
            io::copy(from, &mut encoder)?;
            encoder.finish().map(drop)
        }
    }
}

/// A file that is read until somebody says stop.
struct Until<'f> {
    file: &'f File,
    is_stopped: &'f AtomicBool,
}

impl Read for Until<'_> {
    fn read(&mut self, bytes: &mut [u8]) -> io::Result<usize> {
        match self.is_stopped.load(Ordering::Relaxed) {
            true => Err(io::ErrorKind::ConnectionAborted.into()),
            false => self.file.read(bytes),
        }
    }
}

fn modified(metadata: &Metadata) -> (i64, i64) {
    (metadata.mtime(), metadata.mtime_nsec())
}

/// What tells one state of a file from another, and from other files.
fn identity(metadata: &Metadata) -> [i64; 7] {
    let ((mtime, mtime_nsec), len) = (modified(metadata), metadata.len() as i64);
    let (dev, ino) = (metadata.dev() as i64, metadata.ino() as i64);
    [dev, ino, len, mtime, mtime_nsec, metadata.ctime(), metadata.ctime_nsec()]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_worth_it() {
        for (name, is_so) in [
            ("index.html", true),
            ("app.js", true),
            ("a.css", true),
            ("data.json", true),
            ("feed.rss", true),
            ("logo.svg", true),
            ("add.wasm", true),
            ("site.webmanifest", true),
            ("font.ttf", true),
            ("font.woff2", false),
            ("photo.jpg", false),
            ("pixel.png", false),
            ("film.mp4", false),
            ("archive.zip", false),
            ("app.js.gz", false),
            ("app.js.br", false),
            ("app.js.zst", false),
            ("none", false),
        ] {
            assert_eq!(is_worth_it(name.as_bytes()), is_so, "{name}");
        }
    }
}
