//! How long a client is waited for, and when that is over: O(1) to set, and to be told.
//!
//! A wheel of slots, one for each tick. A slot holds places in the table of connections, and when it
//! comes they are looked at: what stands there may wait for something else by now, or be another
//! connection, so a slot says no more than that it is time to look. A busy connection is therefore not
//! touched by its deadlines for a whole turn, and a thousand connections that come and go at one place
//! leave one entry behind.

use std::time::{Duration, Instant};

/// Time between two looks. A deadline is met so much too late at the most. Arbitrary.
const TICK: Duration = Duration::from_millis(250);

/// Slots, 64 s in all. What is further away is looked at on the way.
const SLOTS: u64 = 256;

/// What a connection waits for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Phase {
    /// A request, of which nothing has come.
    Idle,
    /// The rest of a head.
    Head,
    /// The rest of a body.
    Body,
    /// The client to take what is sent to it.
    Write,
    /// The client to close, its last response being sent.
    Linger,
}

/// How long is waited for what.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Patience {
    /// From the last response to the next byte, if not for ever.
    pub idle: Option<Duration>,
    /// From the first byte of a head to its last.
    pub head: Duration,
    /// Between two pieces of a body.
    pub body: Duration,
    /// Between two pieces that the client takes.
    pub write: Duration,
    /// From the last response to the client's end.
    pub linger: Duration,
}

impl Patience {
    /// For this phase, if not for ever.
    pub fn with(&self, phase: Phase) -> Option<Duration> {
        match phase {
            Phase::Idle => self.idle,
            Phase::Head => Some(self.head),
            Phase::Body => Some(self.body),
            Phase::Write => Some(self.write),
            Phase::Linger => Some(self.linger),
        }
    }
}

type Tick = u64;

/// The wheel.
#[derive(Debug)]
pub struct Wheel {
    slots: Vec<Vec<u32>>,
    /// For each place the time from which on deadlines are met by a look at it that is due.
    looks: Vec<Option<Instant>>,
    start: Instant,
    /// The tick whose slot comes next.
    next: Tick,
    /// The earliest tick whose slot holds a place.
    earliest: Option<Tick>,
}

impl Wheel {
    /// A wheel that begins to turn now.
    pub fn new(now: Instant) -> Self {
        let slots = vec![Vec::new(); SLOTS as usize];
        Self { slots, looks: Vec::new(), start: now, next: 0, earliest: None }
    }

    /// Has the `place` looked at when `deadline` is over, or earlier.
    pub fn set(&mut self, place: u32, deadline: Instant) {
        let index = place as usize;
        if index >= self.looks.len() {
            self.looks.resize(index + 1, None);
        }
        if self.looks[index].is_some_and(|look| look <= deadline) {
            return;
        }
        let tick = self.tick_of(deadline).clamp(self.next, self.next + SLOTS - 1);
        self.slot(tick).push(place);
        self.earliest = Some(self.earliest.map_or(tick, |earliest| earliest.min(tick)));
        self.looks[index] = Some(self.time_of(tick));
    }

    /// Puts the places that are to be looked at by `now` into `due`.
    pub fn turn(&mut self, now: Instant, due: &mut Vec<u32>) {
        let until = self.tick_of(now);
        while let Some(tick) = self.earliest.filter(|&tick| tick < until) {
            let look = self.time_of(tick);
            for place in std::mem::take(self.slot(tick)) {
                // Otherwise an earlier look has taken its place.
                if self.looks[place as usize] == Some(look) {
                    self.looks[place as usize] = None;
                    due.push(place);
                }
            }
            self.next = tick + 1;
            self.earliest = (self.next..self.next + SLOTS).find(|&tick| !self.slot(tick).is_empty());
        }
        // Who is set from now on finds the empty slots that have gone by at the other end of the turn.
        self.next = self.earliest.map_or(until, |tick| tick.min(until)).max(self.next);
    }

    /// When somebody is to be looked at next.
    pub fn next(&self) -> Option<Instant> {
        Some(self.time_of(self.earliest? + 1))
    }

    /// When `tick` begins.
    fn time_of(&self, tick: Tick) -> Instant {
        // 2³² ticks are 34 years.
        self.start + TICK * u32::try_from(tick).unwrap_or(u32::MAX)
    }

    fn slot(&mut self, tick: Tick) -> &mut Vec<u32> {
        &mut self.slots[(tick % SLOTS) as usize]
    }

    /// The tick in which `deadline` is.
    fn tick_of(&self, deadline: Instant) -> Tick {
        (deadline.saturating_duration_since(self.start).as_nanos() / TICK.as_nanos()) as u64
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn nobody_is_looked_at_before_time_unless_it_is_far_away_nor_a_tick_too_late() {
        let start = Instant::now();
        let at = |millis| start + Duration::from_millis(millis);
        let horizon = TICK * (SLOTS as u32 - 1);
        // Deadlines near and far, set at different times, and turns of the wheel of any length.
        for step_millis in [1, 100, 250, 999, 40_000, 100_000] {
            let mut wheel = Wheel::new(start);
            let mut waiting = Vec::new();
            let mut now = 0;
            for round in 0..200u64 {
                if round < 150 {
                    let wait_millis = [0, 1, 249, 250, 10_000, 63_000, 65_000, 3_600_000][round as usize % 8];
                    wheel.set(round as u32, at(now + wait_millis));
                    waiting.push((round as u32, at(now), at(now + wait_millis)));
                }
                let next = wheel.next();
                now += step_millis;
                let mut due = Vec::new();
                wheel.turn(at(now), &mut due);
                assert!(due.is_empty() || next.is_some_and(|next| next <= at(now)), "it said when");
                for place in due {
                    let found = waiting.iter().position(|&(waiting, ..)| waiting == place).expect("once");
                    let (_, set, deadline) = waiting.remove(found);
                    assert!(deadline <= at(now) || at(now) + TICK >= set + horizon, "not before its time");
                }
                for &(_, _, deadline) in &waiting {
                    assert!(at(now) < deadline + TICK, "not too late");
                }
            }
        }
    }

    #[test]
    fn a_place_is_looked_at_once_for_all_deadlines_behind_its_first() {
        let start = Instant::now();
        let after = |millis| start + Duration::from_millis(millis);
        let mut wheel = Wheel::new(start);
        let mut due = Vec::new();
        for millis in [30_000, 60_000, 30_001, 10_000, 20_000] {
            wheel.set(7, after(millis));
        }
        wheel.turn(after(10_250), &mut due);
        assert_eq!(due, [7]);
        wheel.turn(after(30_250), &mut due);
        assert_eq!(due, [7], "an earlier look has taken the place of this one");
        wheel.turn(after(70_000), &mut due);
        assert_eq!((due.len(), wheel.next()), (1, None));
    }
}
