//! What a worker took of its CPU, and for how long it had something to do.
//!
//! The clocks of a thread are read when a report asks for them, never on the request path. Time with
//! traffic costs a comparison per wake: what lies between two moves of bytes is silence if it is
//! longer than [`SILENCE`].

use std::fs::File;
use std::io;
use std::os::unix::fs::FileExt;
use std::time::{Duration, Instant};

use crate::sys;

/// A time without traffic that counts as silence, and not as a part of the work.
pub const SILENCE: Duration = Duration::from_secs(1);

/// Times of one thread.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Usage {
    /// CPU time in user space (getrusage(2)).
    pub user: Duration,
    /// CPU time in the kernel (getrusage(2)).
    pub system: Duration,
    /// Time for which it could have run and another had its CPU (`/proc/PID/task/TID/schedstat`).
    pub waited: Duration,
}

impl Usage {
    /// User and kernel.
    pub fn cpu(&self) -> Duration {
        self.user + self.system
    }

    /// What came since `earlier`.
    pub fn since(&self, earlier: Usage) -> Usage {
        Usage {
            user: self.user.saturating_sub(earlier.user),
            system: self.system.saturating_sub(earlier.system),
            waited: self.waited.saturating_sub(earlier.waited),
        }
    }
}

/// The clocks of the thread that made it.
#[derive(Debug)]
pub struct Gauge {
    /// Absent where the kernel does not keep it.
    schedstat: Option<File>,
    start: Usage,
}

impl Gauge {
    /// Of this thread, from now on. It is to be read on this thread only.
    pub fn start() -> Self {
        let gauge =
            Self { schedstat: File::open("/proc/thread-self/schedstat").ok(), start: Usage::default() };
        Self { start: gauge.clocks(), ..gauge }
    }

    /// What the thread took since the start.
    pub fn read(&self) -> Usage {
        self.clocks().since(self.start)
    }

    fn clocks(&self) -> Usage {
        let (user, system) = sys::thread_times();
        let waited = self.schedstat.as_ref().and_then(|file| waited(file).ok().flatten());
        Usage { user, system, waited: waited.unwrap_or_default() }
    }
}

/// The second of three numbers: nanoseconds on the run queue.
fn waited(schedstat: &File) -> io::Result<Option<Duration>> {
    let mut text = [0; 64];
    let n = schedstat.read_at(&mut text, 0)?;
    let text = String::from_utf8_lossy(&text[..n]);
    Ok(text.split_ascii_whitespace().nth(1).and_then(|ns| ns.parse().ok()).map(Duration::from_nanos))
}

/// When there was traffic.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Traffic {
    /// From the first move of bytes to the last one, if there was one.
    span: Option<(Instant, Instant)>,
    silence: Duration,
}

impl Traffic {
    /// Bytes have moved.
    pub fn note(&mut self, now: Instant) {
        let Some((_, last)) = &mut self.span else {
            self.span = Some((now, now));
            return;
        };
        let gap = now - *last;
        if gap > SILENCE {
            self.silence += gap;
        }
        *last = now;
    }

    /// From the first move to the last one.
    pub fn window(&self) -> Duration {
        self.span.map_or(Duration::ZERO, |(first, last)| last - first)
    }

    /// The window less its silence.
    pub fn active(&self) -> Duration {
        self.window() - self.silence
    }

    /// Of several workers: from the first move of the first to the last one of the last.
    pub fn window_of(all: &[Traffic]) -> Duration {
        let spans = || all.iter().filter_map(|traffic| traffic.span);
        let first = spans().map(|(first, _)| first).min();
        let last = spans().map(|(_, last)| last).max();
        first.zip(last).map_or(Duration::ZERO, |(first, last)| last - first)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn silence_is_no_traffic() {
        let start = Instant::now();
        let after = |millis| start + Duration::from_millis(millis);
        let mut traffic = Traffic::default();
        assert_eq!((traffic.window(), traffic.active()), (Duration::ZERO, Duration::ZERO));
        for millis in [0, 400, 1400, 5000, 5001] {
            traffic.note(after(millis));
        }
        assert_eq!(traffic.window(), Duration::from_millis(5001));
        assert_eq!(traffic.active(), Duration::from_millis(1401), "1.0 s is traffic, 3.6 s are silence");

        let mut later = Traffic::default();
        later.note(after(9000));
        assert_eq!(Traffic::window_of(&[traffic, Traffic::default(), later]), Duration::from_secs(9));
        assert_eq!(Traffic::window_of(&[]), Duration::ZERO);
    }

    #[test]
    fn what_a_thread_takes_is_its_own() {
        let gauge = Gauge::start();
        // Another thread's work is not ours.
        let other = std::thread::spawn(|| {
            let gauge = Gauge::start();
            while gauge.read().cpu() < Duration::from_millis(30) {}
        });
        other.join().unwrap();
        assert!(gauge.read().cpu() < Duration::from_millis(20), "{:?}", gauge.read());
    }
}
