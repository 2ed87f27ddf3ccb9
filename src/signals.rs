//! Which signals end tared, and how the loop hears of them.
//!
//! SIGTERM, SIGINT and SIGQUIT end it in order, as SIGQUIT does nginx. SIGHUP is the terminal's word that
//! it is gone: it ends a program that has one, unless nohup(1) has it ignored; a program without a
//! terminal is not meant, and goes on. Where there is a log in a file, SIGHUP is the word of whoever rotates
//! logs that the file has been renamed, as to other servers, and never ends it. SIGPIPE is ignored from the
//! begin, by Rust's runtime: a client that has gone is an error of one write.

use std::fs::File;
use std::io;
use std::os::unix::net::UnixStream;

use signal_hook::consts::{SIGHUP, SIGINT, SIGQUIT, SIGTERM};
use signal_hook::low_level::pipe;

use crate::sys;

/// The signals that end it, decided once and for all workers. A terminal that closes may send SIGHUP
/// twice, of its own and through the shell; the second one counts like every second one. `hup_is_taken` says
/// that SIGHUP means something else.
///
/// # Errors
/// What signal(2) says.
pub fn ending(hup_is_taken: bool) -> io::Result<&'static [i32]> {
    let was_ignored = sys::ignore(SIGHUP)?;
    // tty(4): it opens if there is a controlling terminal.
    let has_terminal = File::open("/dev/tty").is_ok();
    Ok(if has_terminal && !was_ignored && !hup_is_taken {
        &[SIGTERM, SIGINT, SIGQUIT, SIGHUP]
    } else {
        &[SIGTERM, SIGINT, SIGQUIT]
    })
}

/// A socket from which a byte can be read for each of `signals`. Having a handler is also what makes
/// them count for process 1.
///
/// # Errors
/// What socketpair(2), dup(2) and sigaction(2) say.
pub fn bytes_of(signals: &[i32]) -> io::Result<UnixStream> {
    let (receiver, sender) = UnixStream::pair()?;
    receiver.set_nonblocking(true)?;
    for &signal in signals {
        pipe::register(signal, sender.try_clone()?)?;
    }
    Ok(receiver)
}
