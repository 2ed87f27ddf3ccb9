//! Where workers put what they have counted, so that somebody sees it together. Visited once a second,
//! or when a report is asked for; never on the request path.

use std::collections::VecDeque;
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use crate::report::Snapshot;

/// The time between two lines of the meter.
const EVERY: Duration = Duration::from_millis(950);

/// A worker's last second is a part of the sum for this long.
const FRESH: Duration = Duration::from_millis(1500);

/// One second of one worker, or the sum of several.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Pulse {
    /// Requests answered per second.
    pub requests_per_s: f64,
    /// Bytes sent per second.
    pub bytes_per_s: f64,
    /// Connections that are open.
    pub open: u64,
    /// CPU time by time.
    pub busy: f64,
}

/// The board.
#[derive(Debug)]
pub struct Board(Mutex<Posted>);

#[derive(Debug)]
struct Posted {
    /// For each worker what it gave to reports that others have not given to yet.
    snapshots: Vec<VecDeque<Snapshot>>,
    /// What those had done in the end who have ended.
    last: Vec<Option<Snapshot>>,
    pulses: Vec<Option<(Instant, Pulse)>>,
    said: Option<Instant>,
}

impl Board {
    /// A board of so many workers.
    pub fn new(workers: usize) -> Self {
        let snapshots = (0..workers).map(|_| VecDeque::new()).collect();
        Self(Mutex::new(Posted {
            snapshots,
            last: vec![None; workers],
            pulses: vec![None; workers],
            said: None,
        }))
    }

    /// Puts up what a worker has done so far. All workers are asked at once; the last one to answer gets
    /// what all of them have put up.
    pub fn post(&self, worker: usize, snapshot: Snapshot) -> Option<Vec<Snapshot>> {
        let mut posted = self.lock();
        posted.snapshots[worker].push_back(snapshot);
        posted.take_round()
    }

    /// A worker has ended, and goes into all reports to come as it is. Returns what [`Board::post`] does,
    /// if the others have waited for this one.
    pub fn leave(&self, worker: usize, snapshot: Snapshot) -> Option<Vec<Snapshot>> {
        let mut posted = self.lock();
        posted.last[worker] = Some(snapshot);
        posted.take_round()
    }

    /// Puts up a worker's last second. Once a second somebody gets the sum of all.
    pub fn beat(&self, worker: usize, now: Instant, pulse: Pulse) -> Option<Pulse> {
        let mut posted = self.lock();
        posted.pulses[worker] = Some((now, pulse));
        if posted.said.is_some_and(|said| now.saturating_duration_since(said) < EVERY) {
            return None;
        }
        posted.said = Some(now);
        // Rates go stale; a connection that is open stays so.
        let open = posted.pulses.iter().flatten().map(|(_, pulse)| pulse.open).sum();
        let fresh = posted.pulses.iter().flatten();
        let fresh = fresh.filter(|(at, _)| now.saturating_duration_since(*at) < FRESH);
        Some(fresh.fold(Pulse { open, ..Pulse::default() }, |sum, (_, pulse)| Pulse {
            requests_per_s: sum.requests_per_s + pulse.requests_per_s,
            bytes_per_s: sum.bytes_per_s + pulse.bytes_per_s,
            busy: sum.busy + pulse.busy,
            ..sum
        }))
    }

    fn lock(&self) -> MutexGuard<'_, Posted> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Posted {
    /// One snapshot of each worker, if somebody is asked and nobody is waited for.
    fn take_round(&mut self) -> Option<Vec<Snapshot>> {
        let mut both = self.snapshots.iter().zip(&self.last);
        let is_asked = self.snapshots.iter().any(|queue| !queue.is_empty());
        if !is_asked || !both.all(|(queue, last)| !queue.is_empty() || last.is_some()) {
            return None;
        }
        let both = self.snapshots.iter_mut().zip(&self.last);
        Some(both.filter_map(|(queue, last)| queue.pop_front().or_else(|| last.clone())).collect())
    }
}

impl Pulse {
    /// One line, of `workers`.
    pub fn line(&self, workers: usize) -> String {
        let Pulse { requests_per_s, bytes_per_s, open, busy } = *self;
        let us =
            if requests_per_s > 0.0 { format!("{:.2}", busy * 1e6 / requests_per_s) } else { "-".to_owned() };
        format!(
            "{requests_per_s:>9.0} requests/s {open:>6} connections {:>8.2} MB/s {:>4.0} % busy {us:>7} µs of CPU/request",
            bytes_per_s / 1e6,
            busy * 100.0 / workers as f64,
        )
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn snapshot(open: u64) -> Snapshot {
        Snapshot { open, ..Snapshot::default() }
    }

    #[test]
    fn a_report_has_one_snapshot_of_each_worker() {
        let board = Board::new(2);
        let opens =
            |all: Option<Vec<Snapshot>>| all.map(|all| all.iter().map(|one| one.open).collect::<Vec<_>>());
        assert_eq!(opens(board.post(0, snapshot(1))), None);
        assert_eq!(opens(board.post(0, snapshot(2))), None, "asked again before the other has answered");
        assert_eq!(opens(board.post(1, snapshot(10))), Some(vec![1, 10]));
        assert_eq!(opens(board.post(1, snapshot(20))), Some(vec![2, 20]));
        assert_eq!(opens(Board::new(1).post(0, snapshot(7))), Some(vec![7]));

        assert_eq!(opens(board.leave(0, snapshot(3))), None, "nobody is asked");
        assert_eq!(opens(board.post(1, snapshot(30))), Some(vec![3, 30]), "who has ended is not waited for");
        let board = Board::new(2);
        assert_eq!(opens(board.post(1, snapshot(10))), None);
        assert_eq!(opens(board.leave(0, snapshot(0))), Some(vec![0, 10]), "who ends lets the others go on");
    }

    #[test]
    fn the_meter_speaks_once_a_second_for_all_who_worked() {
        let board = Board::new(2);
        let start = Instant::now();
        let at = |millis| start + Duration::from_millis(millis);
        let pulse = Pulse { requests_per_s: 100.0, bytes_per_s: 1e6, open: 5, busy: 0.5 };
        assert_eq!(board.beat(0, at(0), pulse), Some(pulse));
        assert_eq!(board.beat(1, at(300), pulse), None);
        let both = Pulse { requests_per_s: 200.0, bytes_per_s: 2e6, open: 10, busy: 1.0 };
        assert_eq!(board.beat(0, at(1000), pulse), Some(both));
        let one = Pulse { open: 10, ..pulse };
        assert_eq!(board.beat(0, at(2000), pulse), Some(one), "the other has had nothing to do since");
        let line = both.line(2);
        for part in ["200 requests/s", "10 connections", "2.00 MB/s", "50 % busy", "5000.00 µs"] {
            assert!(line.contains(part), "{line}");
        }
        assert!(Pulse::default().line(1).contains(" - µs"));
    }
}
