//! Responses on their way out: those of one batch, and what a short write left of them.
//!
//! Answers go in, in order; one vectored write takes out all that the socket will have. A batch is
//! gathered in the one outbox of the loop; if the socket takes less, [`Outbox::take_unsent`] moves
//! the rest into an outbox that belongs to the connection and owns what it needs: its head bytes,
//! and a handle on each response that keeps the body alive. Templates are never referred to, so an
//! entry may be evicted under it.
//!
//! ```text
//! bytes   head│head│head      │head   …      own bytes, in one piece
//! bodies             ^body    ^body          each stands `at` so many own bytes
//! ```

use std::fs::File;
use std::io::{self, IoSlice, Write};
use std::num::NonZeroUsize;
use std::rc::Rc;

use crate::clock::Dates;
use crate::head::{Response, Source};
use crate::range::{RANGES_MAX, Span};
use crate::tally::{Call, Calls, Tally};

/// Bytes of heads and inlined bodies after which a batch is sent before more requests are answered.
const BATCH_BYTES_MAX: usize = 64 * 1024;

/// Bodies of a batch, and those of one response more.
const BATCH_BODIES_MAX: usize = 32 + RANGES_MAX;

/// Slices of a vectored write: the bodies, and own bytes before, between and behind them. Far below
/// IOV_MAX (1,024).
const SLICES_MAX: usize = 2 * BATCH_BODIES_MAX + 1;

/// Writes to one socket before another gets its turn. A write takes what fits the socket's buffer,
/// some hundreds of kilobytes, so this is a few megabytes to a reader that is as fast as we are.
const WRITES_PER_TURN: usize = 8;

/// Where an outbox is sent to.
pub trait Sink: Write {
    /// Writes `bytes`, to which more is added at once.
    ///
    /// # Errors
    /// As [`Write::write`].
    fn write_more(&mut self, bytes: &[u8]) -> io::Result<usize>;

    /// Writes at most `len` bytes of `file` from `offset` on; 0 says that it ends there.
    ///
    /// # Errors
    /// As [`Write::write`].
    fn write_file(&mut self, file: &File, offset: u64, len: usize) -> io::Result<usize>;
}

/// What became of a send.
#[derive(Debug, PartialEq, Eq)]
pub enum Sent {
    /// Everything has left.
    All,
    /// The socket takes no more for now, and will say when it does.
    Blocked,
    /// The socket takes more, but it is somebody else's turn.
    Paused,
    /// A file could not be read by the kernel, or was cut shorter while it was being sent.
    Cut,
    /// The connection is gone.
    Lost,
}

/// A span of a response's body, behind `at` own bytes.
#[derive(Debug)]
struct Piece {
    at: usize,
    response: Rc<Response>,
    span: Span,
}

impl Piece {
    fn len(&self) -> u64 {
        self.span.end - self.span.start
    }
}

/// Where an outbox ended before a response was put in.
#[derive(Clone, Copy, Debug)]
pub struct Mark {
    bytes_len: usize,
    bodies_len: usize,
    total: u64,
}

/// Bytes to be sent, in order.
#[derive(Debug, Default)]
pub struct Outbox {
    bytes: Vec<u8>,
    bodies: Vec<Piece>,
    /// Bytes of all bodies.
    bodies_total: u64,
    /// Bytes that have left.
    sent: u64,
    /// Whether this is what was unsent of an outbox of which something had left.
    is_begun: bool,
}

impl Outbox {
    /// Whether nothing is unsent.
    pub fn is_empty(&self) -> bool {
        self.sent == self.total()
    }

    /// Whether it is time to send.
    pub fn is_full(&self) -> bool {
        self.bytes.len() >= BATCH_BYTES_MAX || self.bodies.len() + RANGES_MAX > BATCH_BODIES_MAX
    }

    /// Puts in `response`, its body only if `with_body` (it is not for HEAD).
    pub fn push(&mut self, response: &Rc<Response>, keep_alive: bool, with_body: bool, dates: &Dates) {
        response.template(keep_alive).stamp(with_body, dates, &mut self.bytes);
        if with_body && !response.body().is_empty() {
            self.push_body(response, 0..response.body().len());
        }
    }

    /// Puts in what `write` appends to the outbox's own bytes.
    pub fn push_own(&mut self, write: impl FnOnce(&mut Vec<u8>)) {
        write(&mut self.bytes);
    }

    /// Puts in `span` of what GET on `response` brings.
    pub fn push_span(&mut self, response: &Rc<Response>, span: Span) {
        match response.inlined() {
            [] => self.push_body(response, span),
            bytes => self.bytes.extend_from_slice(&bytes[span.start as usize..span.end as usize]),
        }
    }

    fn push_body(&mut self, response: &Rc<Response>, span: Span) {
        let piece = Piece { at: self.bytes.len(), response: Rc::clone(response), span };
        self.bodies_total += piece.len();
        self.bodies.push(piece);
    }

    fn total(&self) -> u64 {
        self.bytes.len() as u64 + self.bodies_total
    }

    /// The end of what is in, to come back to.
    pub fn mark(&self) -> Mark {
        Mark { bytes_len: self.bytes.len(), bodies_len: self.bodies.len(), total: self.total() }
    }

    /// Whether a byte of what was put in since `mark` has left.
    pub fn is_begun_since(&self, mark: Mark) -> bool {
        self.sent > mark.total
    }

    /// Whether more than `len` bytes were put in since `mark`.
    pub fn is_longer_since(&self, mark: Mark, len: u64) -> bool {
        self.total() - mark.total > len
    }

    /// What was put in since `mark`, a response: its own bytes, which begin with its head, and how many bytes
    /// it has in all.
    pub fn since(&self, mark: Mark) -> (&[u8], u64) {
        (&self.bytes[mark.bytes_len..], self.total() - mark.total)
    }

    /// Takes out what was put in since `mark`, of which no byte may have left.
    pub fn take_back(&mut self, mark: Mark) {
        assert!(!self.is_begun_since(mark), "what has left cannot be taken back");
        self.bytes.truncate(mark.bytes_len);
        self.bodies.truncate(mark.bodies_len);
        self.bodies_total = mark.total - mark.bytes_len as u64;
    }

    /// Writes until everything has left or the socket will not have more.
    ///
    /// A body that is read from its file is the last of its batch, and once a byte of the batch has left
    /// a mapped file's size is checked before each further write (one `fstat` per write).
    pub fn send(&mut self, socket: &mut impl Sink, tally: &mut Tally) -> Sent {
        for _ in 0..WRITES_PER_TURN {
            if (self.sent > 0 || self.is_begun) && !self.is_whole(&mut tally.calls) {
                return Sent::Cut;
            }
            match self.write(socket, tally) {
                Ok(Some(n)) => self.sent += n.get() as u64,
                Ok(None) => return Sent::Cut,
                Err(error) => match error.kind() {
                    io::ErrorKind::WouldBlock => return Sent::Blocked,
                    io::ErrorKind::Interrupted => {}
                    _ if matches!(error.raw_os_error(), Some(libc::EFAULT | libc::EIO)) => return Sent::Cut,
                    _ => return Sent::Lost,
                },
            }
            if self.is_empty() {
                self.clear();
                return Sent::All;
            }
        }
        Sent::Paused
    }

    /// Moves what is unsent into an outbox of its own.
    pub fn take_unsent(&mut self) -> Outbox {
        let mut unsent = Outbox { is_begun: self.is_begun || self.sent > 0, ..Outbox::default() };
        let mut gone = self.sent;
        for (own, piece) in self.parts() {
            let own_gone = gone.min(own.len() as u64);
            unsent.bytes.extend_from_slice(&own[own_gone as usize..]);
            gone -= own_gone;
            if let Some(piece) = piece {
                let piece_gone = gone.min(piece.len());
                if piece_gone < piece.len() {
                    unsent.push_body(&piece.response, piece.span.start + piece_gone..piece.span.end);
                }
                gone -= piece_gone;
            }
        }
        self.clear();
        unsent
    }

    fn clear(&mut self) {
        self.bytes.clear();
        self.bodies.clear();
        (self.bodies_total, self.sent, self.is_begun) = (0, 0, false);
    }

    /// Own bytes and the body behind them, in order; the last own bytes have none.
    fn parts(&self) -> impl Iterator<Item = (&[u8], Option<&Piece>)> {
        self.bodies.iter().map(Some).chain([None]).scan(0, |start, piece| {
            let end = piece.map_or(self.bytes.len(), |piece| piece.at);
            let own = &self.bytes[*start..end];
            *start = end;
            Some((own, piece))
        })
    }

    /// Whether the file of a mapped body still reaches to where we need it.
    fn is_whole(&self, calls: &mut Calls) -> bool {
        let of_files = self.bodies.iter().filter(|piece| piece.response.body().file().is_some());
        let farthest = of_files.max_by_key(|piece| piece.span.end);
        farthest.is_none_or(|piece| piece.response.body().reaches(piece.span.end, calls))
    }

    /// Writes once; `None` says that a file ended too early.
    fn write(&self, socket: &mut impl Sink, tally: &mut Tally) -> io::Result<Option<NonZeroUsize>> {
        match self.bodies.len() {
            0 => {
                let unsent = &self.bytes[self.sent as usize..];
                written(counted(Call::SendTo, unsent.len(), tally, || socket.write(unsent)))
            }
            1 => self.write_bodies::<3>(socket, tally),
            _ => self.write_bodies::<SLICES_MAX>(socket, tally),
        }
    }

    /// One vectored write of at most `N` slices up to the next file, or one of that file.
    fn write_bodies<const N: usize>(
        &self,
        socket: &mut impl Sink,
        tally: &mut Tally,
    ) -> io::Result<Option<NonZeroUsize>> {
        let mut slices = [IoSlice::new(&[]); N];
        let mut slices_len = 0;
        let mut offered = 0;
        let mut is_file_next = false;
        let mut gone = self.sent;
        let sources = self.parts().flat_map(|(own, piece)| {
            let body = piece.map(|piece| piece.response.body().source(piece.span.clone()));
            [Some(Source::Memory(IoSlice::new(own))), body]
        });
        for source in sources.flatten() {
            let source_gone = gone.min(source.len());
            gone -= source_gone;
            match source {
                source if source_gone == source.len() => {}
                Source::Memory(mut slice) => {
                    slice.advance(source_gone as usize);
                    offered += slice.len();
                    slices[slices_len] = slice;
                    slices_len += 1;
                }
                Source::File { file, offset, len } if slices_len == 0 => {
                    let (offset, len) = (offset + source_gone, len - source_gone as usize);
                    let sent = counted(Call::SendFile, len, tally, || socket.write_file(file, offset, len));
                    return Ok(NonZeroUsize::new(sent?));
                }
                Source::File { .. } => {
                    is_file_next = true;
                    break;
                }
            }
        }
        written(match &slices[..slices_len] {
            [head] if is_file_next => counted(Call::SendTo, offered, tally, || socket.write_more(head)),
            slices => counted(Call::Writev, offered, tally, || socket.write_vectored(slices)),
        })
    }
}

/// What `write` says, counted as a call of this kind that offers so many bytes.
fn counted(
    call: Call,
    offered: usize,
    tally: &mut Tally,
    write: impl FnOnce() -> io::Result<usize>,
) -> io::Result<usize> {
    tally.calls.count(call);
    let result = write();
    tally.count_send(offered, *result.as_ref().unwrap_or(&0));
    result
}

/// A socket that takes nothing, and does not say why, is none.
fn written(result: io::Result<usize>) -> io::Result<Option<NonZeroUsize>> {
    match NonZeroUsize::new(result?) {
        Some(n) => Ok(Some(n)),
        None => Err(io::ErrorKind::WriteZero.into()),
    }
}

/// A sink whose other side is a test.
#[cfg(test)]
pub(crate) mod fake {
    use std::os::unix::fs::FileExt;

    use super::*;

    /// What becomes of one write.
    pub(crate) type Writing = Box<dyn FnMut(&[u8]) -> io::Result<usize>>;

    pub(crate) struct Taker {
        pub(crate) write: Writing,
        /// Writes asked for, and what was taken of them.
        pub(crate) writes: usize,
        pub(crate) taken: Vec<u8>,
    }

    impl Taker {
        pub(crate) fn new(write: impl FnMut(&[u8]) -> io::Result<usize> + 'static) -> Self {
            Self { write: Box::new(write), writes: 0, taken: Vec::new() }
        }

        /// Takes everything.
        pub(crate) fn wide() -> Self {
            Self::new(|bytes| Ok(bytes.len()))
        }

        /// Takes `room` bytes a write and blocks on every other one.
        pub(crate) fn narrow(room: usize) -> Self {
            let mut is_free = false;
            Self::new(move |bytes| {
                is_free = !is_free;
                if is_free { Ok(bytes.len().min(room)) } else { Err(io::ErrorKind::WouldBlock.into()) }
            })
        }

        /// Fails with `errno`.
        pub(crate) fn failing(errno: i32) -> Self {
            Self::new(move |_| Err(io::Error::from_raw_os_error(errno)))
        }
    }

    impl Write for Taker {
        fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
            self.writes += 1;
            let n = (self.write)(bytes)?;
            self.taken.extend_from_slice(&bytes[..n]);
            Ok(n)
        }

        fn write_vectored(&mut self, slices: &[IoSlice<'_>]) -> io::Result<usize> {
            let all: Vec<u8> = slices.iter().flat_map(|slice| slice.to_vec()).collect();
            self.write(&all)
        }

        fn flush(&mut self) -> io::Result<()> {
            Ok(())
        }
    }

    impl Sink for Taker {
        fn write_more(&mut self, bytes: &[u8]) -> io::Result<usize> {
            self.write(bytes)
        }

        fn write_file(&mut self, file: &File, offset: u64, len: usize) -> io::Result<usize> {
            let mut bytes = vec![0; len];
            match file.read_at(&mut bytes, offset)? {
                0 => Ok(0),
                n => self.write(&bytes[..n]),
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use std::io::Seek;

    use super::fake::Taker;
    use super::*;
    use crate::head::{Body, Status};

    const DATES: &Dates =
        &Dates { date: *b"Sun, 06 Nov 1994 08:49:37 GMT", expires: *b"Mon, 07 Nov 1994 08:49:37 GMT" };

    fn response(body: Body) -> Rc<Response> {
        Rc::new(Response::new(Status(200), &[], body))
    }

    fn file(bytes: &[u8]) -> File {
        let mut file = tempfile::tempfile().unwrap();
        file.write_all(bytes).unwrap();
        file.rewind().unwrap();
        file
    }

    /// A body in the template, one beside it, and one in a file.
    fn batch() -> Outbox {
        let small = response(Body::Bytes(b"small".to_vec()));
        let large = response(Body::Bytes(vec![b'L'; 3000]));
        let filed = response(Body::File { file: Rc::new(file(&[b'F'; 700])), len: 700 });
        let mut outbox = Outbox::default();
        for (response, keep_alive, with_body) in [
            (&small, true, true),
            (&large, true, true),
            (&large, true, false),
            (&small, true, true),
            (&large, false, true),
            (&filed, true, true),
            (&small, true, true),
        ] {
            outbox.push(response, keep_alive, with_body, DATES);
        }
        outbox.push_span(&large, 10..20);
        outbox.push_span(&small, 1..3);
        outbox.push_span(&filed, 690..700);
        outbox
    }

    fn sent_at_once() -> Vec<u8> {
        let mut socket = Taker::wide();
        assert_eq!(batch().send(&mut socket, &mut Tally::default()), Sent::All);
        assert_eq!(socket.writes, 4, "memory, file, memory, file");
        socket.taken
    }

    #[test]
    fn what_is_put_in_comes_out_in_order() {
        let text = String::from_utf8(sent_at_once()).unwrap();
        let bodies: Vec<_> =
            text.split("HTTP/1.1 200 OK").skip(1).map(|r| r.split_once("\r\n\r\n").unwrap().1).collect();
        let (large, filed) = ("L".repeat(3000), "F".repeat(700));
        let last = format!("small{}ma{}", "L".repeat(10), "F".repeat(10));
        assert_eq!(bodies, ["small", &large, "", "small", &large, &filed, &last]);
    }

    #[test]
    fn a_batch_from_memory_leaves_with_one_write() {
        let mut outbox = Outbox::default();
        for body_len in [5, 3000, 5, 3000] {
            outbox.push(&response(Body::Bytes(vec![b'x'; body_len])), true, true, DATES);
        }
        let mut socket = Taker::wide();
        assert_eq!(outbox.send(&mut socket, &mut Tally::default()), Sent::All);
        assert_eq!(socket.writes, 1);
    }

    #[test]
    fn every_size_of_short_write_sends_the_same_bytes() {
        let expected = sent_at_once();
        for room in 1..expected.len() {
            let mut socket = Taker::narrow(room);
            let mut outbox = batch();
            let mut sends = 0;
            let mut outcome = outbox.send(&mut socket, &mut Tally::default());
            while outcome != Sent::All {
                assert!(matches!(outcome, Sent::Blocked | Sent::Paused));
                let rest = outbox.take_unsent();
                assert!(outbox.is_empty());
                outbox = rest;
                outcome = outbox.send(&mut socket, &mut Tally::default());
                sends += 1;
                assert!(sends <= 2 * expected.len());
            }
            assert_eq!(socket.taken, expected, "with {room} bytes a write");
        }
    }

    #[test]
    fn a_response_is_taken_back_as_long_as_none_of_it_has_left() {
        let (first, second) = (response(Body::Bytes(b"1".to_vec())), response(Body::Bytes(vec![b'2'; 5000])));
        let both = || {
            let mut outbox = Outbox::default();
            outbox.push(&first, true, true, DATES);
            let mark = outbox.mark();
            outbox.push(&second, true, true, DATES);
            (outbox, mark)
        };
        let first_len = both().1.total as usize;
        for room in 1..=first_len {
            let mut socket = Taker::narrow(room);
            let (mut outbox, mark) = both();
            assert_eq!(outbox.send(&mut socket, &mut Tally::default()), Sent::Blocked);
            assert!(!outbox.is_begun_since(mark));
            outbox.take_back(mark);
            for _ in 0..2 * first_len {
                if outbox.is_empty() || outbox.send(&mut socket, &mut Tally::default()) == Sent::All {
                    break;
                }
            }
            assert!(outbox.is_empty());
            assert_eq!(socket.taken.len(), first_len);
            assert!(socket.taken.ends_with(b"\r\n\r\n1"));
        }
        let (mut outbox, mark) = both();
        assert_eq!(outbox.send(&mut Taker::narrow(first_len + 1), &mut Tally::default()), Sent::Blocked);
        assert!(outbox.is_begun_since(mark));
    }

    #[test]
    fn a_file_that_ends_too_early_cuts_its_response() {
        let short = response(Body::File { file: Rc::new(file(&[b'F'; 699])), len: 700 });
        let mut outbox = Outbox::default();
        outbox.push(&short, true, true, DATES);
        let mut socket = Taker::wide();
        assert_eq!(outbox.send(&mut socket, &mut Tally::default()), Sent::Cut);
        assert!(socket.taken.ends_with(&[b'F'; 699]));
    }

    #[test]
    fn one_turn_writes_a_bounded_number_of_times() {
        let mut outbox = batch();
        assert_eq!(outbox.send(&mut Taker::new(|_| Ok(1)), &mut Tally::default()), Sent::Paused);
        assert_eq!(outbox.sent, WRITES_PER_TURN as u64);
    }

    #[test]
    fn errors_of_the_socket() {
        for (errno, sent) in [
            (libc::EAGAIN, Sent::Blocked),
            (libc::EFAULT, Sent::Cut),
            (libc::EIO, Sent::Cut),
            (libc::ECONNRESET, Sent::Lost),
            (libc::EPIPE, Sent::Lost),
            (libc::EINTR, Sent::Paused),
        ] {
            assert_eq!(batch().send(&mut Taker::failing(errno), &mut Tally::default()), sent);
        }
        assert_eq!(batch().send(&mut Taker::new(|_| Ok(0)), &mut Tally::default()), Sent::Lost);
    }
}
