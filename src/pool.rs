//! Reusable parser slots: one input buffer each, handed out last in, first out.
//!
//! A connection takes a slot when it has something to read and gives it back when it has no unread
//! bytes, so an idle connection owns none and a busy loop keeps using the one that is hot in the
//! cache.

use std::io::{self, Read};

use crate::request::HEAD_MAX;

/// Bytes of input that a slot holds: the longest head, and room to skip a body behind it.
const SLOT_LEN: usize = HEAD_MAX + 4 * 1024;

/// Free slots that are kept; beyond it they are freed. 1,024 as in the 2012 program: an arbitrary
/// bound on memory that nobody uses, 20 MiB of it at the most.
const FREE_MAX: usize = 1024;

/// Bytes from which on what is freed goes back to the kernel at once. Between other allocations the
/// allocator kept what slots had been: 80 MB behind 4,000 clients who had sent a part of a head each and were
/// gone. With mappings of their own, of which only pages that were written to are there, it is 4 MB.
pub const RETURNED_MIN: usize = 16 * 1024;

const _: () = assert!(SLOT_LEN >= RETURNED_MIN);

/// An input buffer with its unread bytes.
#[derive(Debug)]
pub struct Slot {
    bytes: Box<[u8]>,
    start: usize,
    end: usize,
}

impl Slot {
    fn new() -> Self {
        Self { bytes: vec![0; SLOT_LEN].into_boxed_slice(), start: 0, end: 0 }
    }

    /// The bytes that were read and not consumed.
    pub fn unread(&self) -> &[u8] {
        &self.bytes[self.start..self.end]
    }

    /// Puts `byte` in the place of the unread byte at `at`.
    pub fn replace(&mut self, at: usize, byte: u8) {
        self.bytes[self.start + at] = byte;
    }

    /// Whether nothing is unread.
    pub fn is_empty(&self) -> bool {
        self.start == self.end
    }

    /// Consumes the first `n` unread bytes.
    pub fn consume(&mut self, n: usize) {
        debug_assert!(n <= self.end - self.start);
        self.start += n;
        if self.start == self.end {
            (self.start, self.end) = (0, 0);
        }
    }

    /// Drops the unread bytes behind the first `n`.
    pub fn keep_only(&mut self, n: usize) {
        debug_assert!(n <= self.end - self.start);
        self.end = self.start + n;
    }

    /// Reads once from `socket`; returns the bytes read and whether the space offered was filled,
    /// in which case more may be waiting.
    ///
    /// # Errors
    /// What the socket says, `WouldBlock` among it.
    pub fn read_from(&mut self, socket: &mut impl Read) -> io::Result<(usize, bool)> {
        if self.start > 0 {
            self.bytes.copy_within(self.start..self.end, 0);
            (self.start, self.end) = (0, self.end - self.start);
        }
        let space = &mut self.bytes[self.end..];
        debug_assert!(!space.is_empty(), "a slot is read into only while a head may still fit");
        let space_len = space.len();
        let n = socket.read(space)?;
        self.end += n;
        Ok((n, n == space_len))
    }
}

/// The free slots.
#[derive(Debug, Default)]
pub struct Pool {
    free: Vec<Slot>,
}

impl Pool {
    /// The slot that was used last, or a new one.
    pub fn take(&mut self) -> Slot {
        self.free.pop().unwrap_or_else(Slot::new)
    }

    /// Gives a slot back; it must have been read to its end.
    pub fn put(&mut self, slot: Slot) {
        assert!(slot.is_empty(), "a slot with unread bytes belongs to its connection");
        if self.free.len() < FREE_MAX {
            self.free.push(slot);
        }
    }

    /// Gives a slot back, whatever is unread in it.
    pub fn put_discarding(&mut self, mut slot: Slot) {
        slot.consume(slot.unread().len());
        self.put(slot);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn slot_with(bytes: &[u8]) -> Slot {
        let mut slot = Slot::new();
        assert_eq!(slot.read_from(&mut &bytes[..]).unwrap(), (bytes.len(), false));
        slot
    }

    #[test]
    fn unread_bytes_survive_consuming_and_further_reads() {
        let mut slot = slot_with(b"one two");
        slot.consume(4);
        slot.read_from(&mut &b" three"[..]).unwrap();
        assert_eq!(slot.unread(), b"two three");
        slot.keep_only(3);
        assert_eq!(slot.unread(), b"two");
        slot.consume(3);
        assert!(slot.is_empty());
    }

    #[test]
    fn a_filled_read_says_that_more_may_wait() {
        let input = vec![b'x'; SLOT_LEN + 1];
        let mut slot = Slot::new();
        assert_eq!(slot.read_from(&mut &input[..]).unwrap(), (SLOT_LEN, true));
    }

    #[test]
    fn the_pool_is_last_in_first_out_and_bounded() {
        let mut pool = Pool::default();
        let (a, b) = (pool.take(), pool.take());
        let b_at = b.bytes.as_ptr();
        pool.put(a);
        pool.put_discarding(b);
        assert_eq!(pool.take().bytes.as_ptr(), b_at);
        for _ in 0..FREE_MAX + 2 {
            pool.put(Slot::new());
        }
        assert_eq!(pool.free.len(), FREE_MAX);
    }

    #[test]
    #[should_panic(expected = "unread bytes")]
    fn a_slot_with_unread_bytes_is_not_taken_back() {
        Pool::default().put(slot_with(b"x"));
    }
}
