//! The one address of `unsafe`: system calls that no crate on the request path wraps.
//!
//! One operation a function, `io::Result` at first contact. Nothing here decides anything.

#![allow(unsafe_code)]

use std::ffi::CStr;
use std::fs::File;
use std::io;
use std::os::fd::{AsRawFd, BorrowedFd, FromRawFd, OwnedFd, RawFd};
use std::time::Duration;

use memmap2::{Mmap, MmapOptions};
use socket2::{SockAddr, SockAddrStorage};

/// How a file to be served is opened: non-blocking, so that a FIFO cannot hold the loop.
const READ_FLAGS: libc::c_int = libc::O_RDONLY | libc::O_NONBLOCK | libc::O_NOCTTY | libc::O_CLOEXEC;

/// Has the allocator make an own mapping of every allocation of `bytes` or more, which the kernel has back when
/// it is freed (mallopt(3), of glibc; other allocators do as they do).
pub(crate) fn map_allocations_from(bytes: usize) {
    #[cfg(target_env = "gnu")]
    // SAFETY: mallopt takes integers only, and refuses those that it does not like.
    unsafe {
        libc::mallopt(libc::M_MMAP_THRESHOLD, bytes as libc::c_int);
    }
    #[cfg(not(target_env = "gnu"))]
    let _ = bytes;
}

/// Opens `path`, relative to `dir`, for reading; the kernel refuses to leave `dir` on the way.
///
/// # Errors
/// `EXDEV` if the path leads out, `ENOSYS` before Linux 5.6, `EAGAIN` if a rename interfered, and
/// what open(2) says. See openat2(2).
pub(crate) fn open_beneath(dir: BorrowedFd<'_>, path: &CStr) -> io::Result<File> {
    // SAFETY: `open_how` is a plain C structure for which all zeros is a valid value.
    let mut how: libc::open_how = unsafe { std::mem::zeroed() };
    how.flags = READ_FLAGS as u64;
    how.resolve = libc::RESOLVE_BENEATH | libc::RESOLVE_NO_MAGICLINKS;
    // SAFETY: `path` is NUL-terminated and `how` is a live `open_how` of the size given.
    let fd = unsafe {
        libc::syscall(
            libc::SYS_openat2,
            dir.as_raw_fd(),
            path.as_ptr(),
            &raw const how,
            size_of::<libc::open_how>(),
        )
    };
    owned(fd as RawFd).map(File::from)
}

/// Opens the one component `name` of `dir` for reading; a symbolic link is `ELOOP`.
///
/// # Errors
/// What openat(2) says.
pub(crate) fn open_component(dir: BorrowedFd<'_>, name: &CStr) -> io::Result<File> {
    openat(dir, name, READ_FLAGS | libc::O_NOFOLLOW).map(File::from)
}

/// Opens the one component `name` of `dir` as a directory to go on from.
///
/// # Errors
/// `ENOTDIR` if it is none or a symbolic link, and what openat(2) says.
pub(crate) fn open_directory(dir: BorrowedFd<'_>, name: &CStr) -> io::Result<OwnedFd> {
    openat(dir, name, libc::O_PATH | libc::O_DIRECTORY | libc::O_NOFOLLOW | libc::O_CLOEXEC)
}

fn openat(dir: BorrowedFd<'_>, name: &CStr, flags: libc::c_int) -> io::Result<OwnedFd> {
    // SAFETY: `name` is NUL-terminated; without O_CREAT no mode is read.
    owned(unsafe { libc::openat(dir.as_raw_fd(), name.as_ptr(), flags) })
}

/// Bytes that were sent on `socket` and that its other side has not acknowledged yet (SIOCOUTQ, tcp(7), unix(7)).
///
/// # Errors
/// What ioctl(2) says.
pub(crate) fn unacknowledged(socket: BorrowedFd<'_>) -> io::Result<u32> {
    let mut bytes: libc::c_int = 0;
    // SAFETY: TIOCOUTQ, which is SIOCOUTQ, writes one int to where it is told to.
    let status = unsafe { libc::ioctl(socket.as_raw_fd(), libc::TIOCOUTQ, &raw mut bytes) };
    if status == 0 { Ok(bytes as u32) } else { Err(io::Error::last_os_error()) }
}

/// The text of the symbolic link `name` in `dir`.
///
/// # Errors
/// `EINVAL` if it is no symbolic link, and what readlinkat(2) says.
pub(crate) fn read_link(dir: BorrowedFd<'_>, name: &CStr) -> io::Result<Vec<u8>> {
    let mut text = vec![0u8; libc::PATH_MAX as usize];
    // SAFETY: `name` is NUL-terminated and `text` is writable for the length given.
    let len =
        unsafe { libc::readlinkat(dir.as_raw_fd(), name.as_ptr(), text.as_mut_ptr().cast(), text.len()) };
    let len = usize::try_from(len).map_err(|_| io::Error::last_os_error())?;
    text.truncate(len);
    Ok(text)
}

/// Takes over the descriptor `fd`, which was open already when this program began; from now on it is
/// closed on exec.
///
/// # Errors
/// `EBADF` if it was not open, or has been taken over before.
pub(crate) fn adopt(fd: RawFd) -> io::Result<OwnedFd> {
    // SAFETY: fcntl(2) with these commands reads and sets a flag; a number that is no descriptor is EBADF.
    let flags = unsafe { libc::fcntl(fd, libc::F_GETFD) };
    // What was open survived an exec, so it does not have this flag; what the standard library and our
    // crates open has it from the begin.
    if flags < 0 || flags & libc::FD_CLOEXEC != 0 || fd <= libc::STDERR_FILENO {
        return Err(io::Error::from_raw_os_error(libc::EBADF));
    }
    // SAFETY: as above.
    if unsafe { libc::fcntl(fd, libc::F_SETFD, flags | libc::FD_CLOEXEC) } < 0 {
        return Err(io::Error::last_os_error());
    }
    // SAFETY: it is open, and by its flag nobody in this program owned it until now.
    Ok(unsafe { OwnedFd::from_raw_fd(fd) })
}

/// Removes `variables` from the environment, if this thread is seen to be the only one.
pub(crate) fn forget(variables: &[&str]) {
    let threads = std::fs::read_dir("/proc/self/task").map_or(usize::MAX, Iterator::count);
    if threads == 1 {
        for variable in variables {
            // SAFETY: nobody else is here to read or write the environment meanwhile.
            unsafe { std::env::remove_var(variable) };
        }
    }
}

/// Ignores `signal` from now on; returns whether it was ignored already.
///
/// # Errors
/// `EINVAL` for what is no signal.
pub(crate) fn ignore(signal: libc::c_int) -> io::Result<bool> {
    // SAFETY: ignoring takes no handler of ours.
    match unsafe { libc::signal(signal, libc::SIG_IGN) } {
        libc::SIG_ERR => Err(io::Error::last_os_error()),
        before => Ok(before == libc::SIG_IGN),
    }
}

/// The next connection that waits at the listening `socket`, of whatever family; it does not block.
///
/// # Errors
/// What accept(2) says; `EAGAIN` if nobody waits.
pub(crate) fn accept(socket: BorrowedFd<'_>) -> io::Result<OwnedFd> {
    let flags = libc::SOCK_NONBLOCK | libc::SOCK_CLOEXEC;
    // SAFETY: without a place for the peer's address none is written.
    owned(unsafe { libc::accept4(socket.as_raw_fd(), std::ptr::null_mut(), std::ptr::null_mut(), flags) })
}

/// The same, with the peer's address.
///
/// # Errors
/// As of [`accept`].
pub(crate) fn accept_named(socket: BorrowedFd<'_>) -> io::Result<(OwnedFd, SockAddr)> {
    let flags = libc::SOCK_NONBLOCK | libc::SOCK_CLOEXEC;
    let accept = |address: *mut SockAddrStorage, len: *mut libc::socklen_t| {
        // SAFETY: `address` is writable for `*len` bytes, by the word of `try_init`.
        owned(unsafe { libc::accept4(socket.as_raw_fd(), address.cast(), len, flags) })
    };
    // SAFETY: accept4(2) writes an address and its length, where it does not fail.
    unsafe { SockAddr::try_init(accept) }
}

/// Sends `bytes`, with more to follow at once: they wait for it (MSG_MORE, send(2)).
///
/// # Errors
/// What send(2) says.
pub(crate) fn send_more(socket: BorrowedFd<'_>, bytes: &[u8]) -> io::Result<usize> {
    let flags = libc::MSG_MORE | libc::MSG_NOSIGNAL;
    // SAFETY: `bytes` is readable for the length given.
    let n = unsafe { libc::send(socket.as_raw_fd(), bytes.as_ptr().cast(), bytes.len(), flags) };
    usize::try_from(n).map_err(|_| io::Error::last_os_error())
}

/// Sends at most `len` bytes of `file` from `offset` on; 0 at its end.
///
/// # Errors
/// What sendfile(2) says.
pub(crate) fn send_file(socket: BorrowedFd<'_>, file: &File, offset: u64, len: usize) -> io::Result<usize> {
    let mut offset = libc::off64_t::try_from(offset).map_err(|_| io::ErrorKind::FileTooLarge)?;
    // SAFETY: `offset` is a live integer, which the kernel moves on.
    let n = unsafe { libc::sendfile64(socket.as_raw_fd(), file.as_raw_fd(), &raw mut offset, len) };
    usize::try_from(n).map_err(|_| io::Error::last_os_error())
}

/// Lets a connection to the listening `socket` wait in the kernel until its first data is there, for
/// `seconds` at the most (TCP_DEFER_ACCEPT, tcp(7)).
///
/// # Errors
/// What setsockopt(2) says.
pub(crate) fn defer_accept(socket: BorrowedFd<'_>, seconds: libc::c_int) -> io::Result<()> {
    // SAFETY: the option's value is a live integer of the size given.
    let result = unsafe {
        libc::setsockopt(
            socket.as_raw_fd(),
            libc::IPPROTO_TCP,
            libc::TCP_DEFER_ACCEPT,
            (&raw const seconds).cast(),
            size_of::<libc::c_int>() as libc::socklen_t,
        )
    };
    if result < 0 { Err(io::Error::last_os_error()) } else { Ok(()) }
}

/// Maps the first `len` bytes of `file`, shared and read-only.
///
/// The mapping is for the kernel alone: see `head::Body`.
///
/// # Errors
/// What mmap(2) says; `EINVAL` for a length of 0.
pub(crate) fn map(file: &File, len: usize) -> io::Result<Mmap> {
    // SAFETY: the file may change or shrink under the mapping. What we rely on is that nothing in
    // this program loads from it: its bytes are only ever named to the kernel, where a page that is
    // gone is EFAULT and not SIGBUS. `head::Body` keeps that promise: it hands out `IoSlice`s only.
    unsafe { MmapOptions::new().len(len).map(file) }
}

/// CPU time that this thread has taken in user space and in the kernel (RUSAGE_THREAD, getrusage(2)).
pub(crate) fn thread_times() -> (Duration, Duration) {
    // SAFETY: `rusage` is a plain C structure for which all zeros is a valid value.
    let mut usage: libc::rusage = unsafe { std::mem::zeroed() };
    // SAFETY: `usage` is a live `rusage`. The call fails for wrong arguments only.
    unsafe { libc::getrusage(libc::RUSAGE_THREAD, &raw mut usage) };
    let duration = |time: libc::timeval| {
        Duration::from_secs(time.tv_sec.cast_unsigned()) + Duration::from_micros(time.tv_usec.cast_unsigned())
    };
    (duration(usage.ru_utime), duration(usage.ru_stime))
}

/// As [`adopt`], of a descriptor that is written to; of standard output and standard error it is a copy.
///
/// # Errors
/// `EBADF` also if it is not open for writing.
pub(crate) fn adopt_to_write(fd: RawFd) -> io::Result<OwnedFd> {
    let own = match fd {
        // SAFETY: F_DUPFD_CLOEXEC reads nothing but the numbers.
        ..=libc::STDERR_FILENO => owned(unsafe { libc::fcntl(fd, libc::F_DUPFD_CLOEXEC, 3) })?,
        _ => adopt(fd)?,
    };
    // SAFETY: F_GETFL reads nothing but the number.
    let flags = unsafe { libc::fcntl(own.as_raw_fd(), libc::F_GETFL) };
    if flags & libc::O_ACCMODE == libc::O_RDONLY {
        return Err(io::Error::from_raw_os_error(libc::EBADF));
    }
    Ok(own)
}

/// Lets `signal` do from now on what it does by itself.
pub(crate) fn restore(signal: libc::c_int) {
    // SAFETY: the default takes no handler of ours. It fails for what is no signal only.
    unsafe { libc::signal(signal, libc::SIG_DFL) };
}

fn owned(fd: RawFd) -> io::Result<OwnedFd> {
    if fd < 0 {
        return Err(io::Error::last_os_error());
    }
    // SAFETY: the kernel has just returned this descriptor and nobody else knows it.
    Ok(unsafe { OwnedFd::from_raw_fd(fd) })
}
