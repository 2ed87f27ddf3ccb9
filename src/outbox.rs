//! Responses on their way out: those of one batch, and what a short write left of them.
//!
//! Answers go in, in order; one vectored write takes out all that the socket will have. A batch is
//! gathered in the one outbox of the loop; if the socket takes less, [`Outbox::take_unsent`] moves
//! the rest into an outbox that belongs to the connection and owns what it needs: its head bytes,
//! and a handle on each response that keeps the body alive. Templates are never referred to, so an
//! entry may be evicted under it.

use std::io::{self, IoSlice, Write};
use std::ops::Range;
use std::rc::Rc;

use crate::clock::Date;
use crate::head::Response;
use crate::range::{RANGES_MAX, Span};

/// Bytes of heads and inlined bodies after which a batch is sent before more requests are answered.
const BATCH_BYTES_MAX: usize = 64 * 1024;

/// Pieces of one response: a head, and for each of its parts a head and a body, and an end.
const RESPONSE_PIECES_MAX: usize = 1 + 2 * RANGES_MAX + 1;

/// Pieces of a batch: the slices of one vectored write, far below IOV_MAX (1,024).
const BATCH_PIECES_MAX: usize = 64 + RESPONSE_PIECES_MAX;

/// Writes to one socket before another gets its turn. A write takes what fits the socket's buffer,
/// some hundreds of kilobytes, so this is a few megabytes to a reader that is as fast as we are.
const WRITES_PER_TURN: usize = 8;

/// What became of a send.
#[derive(Debug, PartialEq, Eq)]
pub enum Sent {
    /// Everything has left.
    All,
    /// The socket takes no more for now, and will say when it does.
    Blocked,
    /// The socket takes more, but it is somebody else's turn.
    Paused,
    /// A mapped body could not be read by the kernel, or was cut shorter while it was being sent.
    Cut,
    /// The connection is gone.
    Lost,
}

#[derive(Debug)]
enum Piece {
    /// These of the outbox's own bytes.
    Own(Range<usize>),
    /// This span of a response's body.
    Body(Rc<Response>, Span),
}

impl Piece {
    fn len(&self) -> u64 {
        match self {
            Piece::Own(range) => range.len() as u64,
            Piece::Body(_, span) => span.end - span.start,
        }
    }

    fn advance(&mut self, n: u64) {
        match self {
            Piece::Own(range) => range.start += n as usize,
            Piece::Body(_, span) => span.start += n,
        }
    }
}

/// Where an outbox ended before a response was put in.
#[derive(Clone, Copy, Debug)]
pub struct Mark {
    queued: u64,
    bytes_len: usize,
    pieces_len: usize,
}

/// Bytes to be sent, in order.
#[derive(Debug, Default)]
pub struct Outbox {
    bytes: Vec<u8>,
    /// The first `gone` of these have left; the one after is cut to what is unsent of it.
    pieces: Vec<Piece>,
    gone: usize,
    /// Bytes put in, and bytes that have left.
    queued: u64,
    left: u64,
}

impl Outbox {
    /// Whether nothing is unsent.
    pub fn is_empty(&self) -> bool {
        self.left == self.queued
    }

    /// Whether it is time to send.
    pub fn is_full(&self) -> bool {
        self.bytes.len() >= BATCH_BYTES_MAX || self.pieces.len() + RESPONSE_PIECES_MAX > BATCH_PIECES_MAX
    }

    /// Puts in `response`, its body only if `with_body` (it is not for HEAD).
    pub fn push(&mut self, response: &Rc<Response>, keep_alive: bool, with_body: bool, date: &Date) {
        self.push_own(|bytes| response.template(keep_alive).stamp(with_body, date, bytes));
        if with_body && !response.body().is_empty() {
            self.push_body(response, 0..response.body().len());
        }
    }

    /// Puts in what `write` appends to the outbox's own bytes.
    pub fn push_own(&mut self, write: impl FnOnce(&mut Vec<u8>)) {
        let start = self.bytes.len();
        write(&mut self.bytes);
        let end = self.bytes.len();
        self.queued += (end - start) as u64;
        match self.pieces.last_mut() {
            Some(Piece::Own(range)) => range.end = end,
            _ => self.pieces.push(Piece::Own(start..end)),
        }
    }

    /// Puts in `span` of what GET on `response` brings.
    pub fn push_span(&mut self, response: &Rc<Response>, span: Span) {
        match response.inlined() {
            [] => self.push_body(response, span),
            bytes => {
                self.push_own(|own| own.extend_from_slice(&bytes[span.start as usize..span.end as usize]))
            }
        }
    }

    fn push_body(&mut self, response: &Rc<Response>, span: Span) {
        self.queued += span.end - span.start;
        self.pieces.push(Piece::Body(Rc::clone(response), span));
    }

    /// The end of what is in, to come back to.
    pub fn mark(&self) -> Mark {
        Mark { queued: self.queued, bytes_len: self.bytes.len(), pieces_len: self.pieces.len() }
    }

    /// Whether a byte of what was put in since `mark` has left.
    pub fn is_begun_since(&self, mark: Mark) -> bool {
        self.left > mark.queued
    }

    /// Takes out what was put in since `mark`, of which no byte may have left.
    pub fn take_back(&mut self, mark: Mark) {
        assert!(!self.is_begun_since(mark), "what has left cannot be taken back");
        self.queued = mark.queued;
        self.bytes.truncate(mark.bytes_len);
        self.pieces.truncate(mark.pieces_len);
        if let Some(Piece::Own(range)) = self.pieces.last_mut() {
            range.end = mark.bytes_len;
        }
    }

    /// Writes until everything has left or the socket will not have more.
    ///
    /// A mapped body is the last of its batch, and once a byte of the batch has left its file's size
    /// is checked before each further write (one `fstat` per write).
    pub fn send(&mut self, socket: &mut impl Write) -> Sent {
        for _ in 0..WRITES_PER_TURN {
            if self.is_empty() {
                self.clear();
                return Sent::All;
            }
            if self.left > 0 && !self.is_whole() {
                return Sent::Cut;
            }
            match self.write(socket) {
                Ok(0) => return Sent::Lost,
                Ok(n) => self.advance(n as u64),
                Err(error) => match error.kind() {
                    io::ErrorKind::WouldBlock => return Sent::Blocked,
                    io::ErrorKind::Interrupted => {}
                    _ if error.raw_os_error() == Some(libc::EFAULT) => return Sent::Cut,
                    _ => return Sent::Lost,
                },
            }
        }
        if self.is_empty() {
            self.clear();
            return Sent::All;
        }
        Sent::Paused
    }

    /// Moves what is unsent into an outbox of its own.
    pub fn take_unsent(&mut self) -> Outbox {
        let mut unsent = Outbox { queued: self.queued, left: self.left, ..Outbox::default() };
        for piece in self.pieces.drain(..).skip(self.gone) {
            unsent.pieces.push(match piece {
                Piece::Own(range) => {
                    let start = unsent.bytes.len();
                    unsent.bytes.extend_from_slice(&self.bytes[range]);
                    Piece::Own(start..unsent.bytes.len())
                }
                body => body,
            });
        }
        self.clear();
        unsent
    }

    fn clear(&mut self) {
        self.bytes.clear();
        self.pieces.clear();
        (self.gone, self.queued, self.left) = (0, 0, 0);
    }

    /// Whether the file of a mapped body still reaches to where we need it.
    fn is_whole(&self) -> bool {
        let bodies = self.pieces[self.gone..].iter().filter_map(|piece| match piece {
            Piece::Body(response, span) if response.is_mapped() => Some((response, span.end)),
            _ => None,
        });
        bodies.max_by_key(|&(_, end)| end).is_none_or(|(response, end)| response.body().reaches(end))
    }

    fn write(&self, socket: &mut impl Write) -> io::Result<usize> {
        match &self.pieces[self.gone..] {
            [Piece::Own(range)] => socket.write(&self.bytes[range.clone()]),
            [own, body] => socket.write_vectored(&[self.slice(own), self.slice(body)]),
            unsent => {
                let mut slices = [IoSlice::new(&[]); BATCH_PIECES_MAX];
                for (slice, piece) in slices.iter_mut().zip(unsent) {
                    *slice = self.slice(piece);
                }
                socket.write_vectored(&slices[..unsent.len()])
            }
        }
    }

    fn slice<'s>(&'s self, piece: &'s Piece) -> IoSlice<'s> {
        match piece {
            Piece::Own(range) => IoSlice::new(&self.bytes[range.clone()]),
            Piece::Body(response, span) => response.body().slice(span.clone()),
        }
    }

    fn advance(&mut self, n: u64) {
        self.left += n;
        let mut n = n;
        while n > 0 {
            let piece = &mut self.pieces[self.gone];
            let step = n.min(piece.len());
            piece.advance(step);
            n -= step;
            if piece.len() == 0 {
                self.gone += 1;
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::head::{Body, Status};

    const DATE: &Date = b"Sun, 06 Nov 1994 08:49:37 GMT";

    /// Takes `room` bytes a write and blocks on every other one; keeps what it took.
    struct Narrow {
        room: usize,
        is_blocked: bool,
        taken: Vec<u8>,
        writes: usize,
    }

    impl Narrow {
        fn new(room: usize) -> Self {
            Self { room, is_blocked: false, taken: Vec::new(), writes: 0 }
        }
    }

    impl Write for Narrow {
        fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
            self.write_vectored(&[IoSlice::new(bytes)])
        }

        fn write_vectored(&mut self, slices: &[IoSlice<'_>]) -> io::Result<usize> {
            self.writes += 1;
            self.is_blocked = !self.is_blocked;
            if self.room < usize::MAX && !self.is_blocked {
                return Err(io::ErrorKind::WouldBlock.into());
            }
            let all: Vec<u8> = slices.iter().flat_map(|slice| slice.to_vec()).collect();
            let n = all.len().min(self.room);
            self.taken.extend_from_slice(&all[..n]);
            Ok(n)
        }

        fn flush(&mut self) -> io::Result<()> {
            Ok(())
        }
    }

    fn response(body: Body) -> Rc<Response> {
        Rc::new(Response::new(Status(200), &[], body))
    }

    fn batch() -> Outbox {
        let (small, large) =
            (response(Body::Bytes(b"small".to_vec())), response(Body::Bytes(vec![b'L'; 3000])));
        let mut outbox = Outbox::default();
        for (response, keep_alive, with_body) in [
            (&small, true, true),
            (&large, true, true),
            (&large, true, false),
            (&small, true, true),
            (&large, false, true),
        ] {
            outbox.push(response, keep_alive, with_body, DATE);
        }
        outbox
    }

    fn sent_at_once() -> Vec<u8> {
        let mut socket = Narrow::new(usize::MAX);
        assert_eq!(batch().send(&mut socket), Sent::All);
        assert_eq!(socket.writes, 1, "a batch leaves with one write");
        socket.taken
    }

    #[test]
    fn every_size_of_short_write_sends_the_same_bytes() {
        let expected = sent_at_once();
        for room in 1..expected.len() {
            let mut socket = Narrow::new(room);
            let mut outbox = batch();
            let mut sends = 0;
            let mut outcome = outbox.send(&mut socket);
            while outcome != Sent::All {
                assert!(matches!(outcome, Sent::Blocked | Sent::Paused));
                let rest = outbox.take_unsent();
                assert!(outbox.is_empty());
                outbox = rest;
                outcome = outbox.send(&mut socket);
                sends += 1;
                assert!(sends <= 2 * expected.len());
            }
            assert_eq!(socket.taken, expected, "with {room} bytes a write");
        }
    }

    #[test]
    fn a_response_is_taken_back_as_long_as_none_of_it_has_left() {
        let (first, second) = (response(Body::Bytes(b"1".to_vec())), response(Body::Bytes(vec![b'2'; 5000])));
        let mut expected = Outbox::default();
        expected.push(&first, true, true, DATE);
        let first_len = expected.queued as usize;
        for room in 1..=first_len {
            let mut socket = Narrow::new(room);
            let mut outbox = Outbox::default();
            outbox.push(&first, true, true, DATE);
            let mark = outbox.mark();
            outbox.push(&second, true, true, DATE);
            assert_eq!(outbox.send(&mut socket), Sent::Blocked);
            assert!(!outbox.is_begun_since(mark));
            outbox.take_back(mark);
            for _ in 0..2 * first_len {
                if outbox.send(&mut socket) == Sent::All {
                    break;
                }
            }
            assert!(outbox.is_empty());
            assert_eq!(socket.taken.len(), first_len);
            assert!(socket.taken.ends_with(b"\r\n\r\n1"));
        }
        let mut socket = Narrow::new(first_len + 1);
        let mut outbox = expected;
        let mark = outbox.mark();
        outbox.push(&second, true, true, DATE);
        assert_eq!(outbox.send(&mut socket), Sent::Blocked);
        assert!(outbox.is_begun_since(mark));
    }

    #[test]
    fn one_turn_writes_a_bounded_number_of_times() {
        struct Crumbs;
        impl Write for Crumbs {
            fn write(&mut self, _: &[u8]) -> io::Result<usize> {
                Ok(1)
            }
            fn flush(&mut self) -> io::Result<()> {
                Ok(())
            }
        }
        let mut outbox = batch();
        assert_eq!(outbox.send(&mut Crumbs), Sent::Paused);
        assert_eq!(outbox.left, WRITES_PER_TURN as u64);
    }

    #[test]
    fn errors_of_the_socket() {
        struct Failing(i32);
        impl Write for Failing {
            fn write(&mut self, _: &[u8]) -> io::Result<usize> {
                Err(io::Error::from_raw_os_error(self.0))
            }
            fn write_vectored(&mut self, _: &[IoSlice<'_>]) -> io::Result<usize> {
                Err(io::Error::from_raw_os_error(self.0))
            }
            fn flush(&mut self) -> io::Result<()> {
                Ok(())
            }
        }
        for (errno, sent) in [
            (libc::EAGAIN, Sent::Blocked),
            (libc::EFAULT, Sent::Cut),
            (libc::ECONNRESET, Sent::Lost),
            (libc::EPIPE, Sent::Lost),
            (libc::EINTR, Sent::Paused),
        ] {
            assert_eq!(batch().send(&mut Failing(errno)), sent);
        }
    }
}
