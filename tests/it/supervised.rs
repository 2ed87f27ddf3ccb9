//! The binary under a supervisor: system calls of chosen kinds wait until the test has said what becomes of
//! them, seccomp_unotify(2). It takes no privilege, and the real kernel goes on with what is let go.
//!
//! The filter is set between fork and exec, so it is there from the first call of the program on. A call that
//! waits holds the whole program, which has one thread: what the test does meanwhile happens between two of
//! its steps.

#![allow(unsafe_code)]

use std::collections::HashMap;
use std::io;
use std::mem::{offset_of, size_of, zeroed};
use std::os::fd::{AsRawFd, FromRawFd, OwnedFd, RawFd};
use std::os::unix::net::UnixStream;
use std::os::unix::process::CommandExt;
use std::process::{Command, Stdio};
use std::sync::{Arc, Mutex, MutexGuard, OnceLock};
use std::thread;

use crate::server::Server;

/// A system call, by its number.
pub(crate) type Number = libc::c_long;

/// The arguments of a call.
pub(crate) type Args = [u64; 6];

/// Why [`Supervised::start`] is `None`.
pub(crate) const NO_SUPERVISOR: &str = "the kernel lets nobody supervise system calls here (seccomp)";

/// What becomes of a call: the error it fails with, or `None` to let it go.
type Rule = Box<dyn FnMut(&Args) -> Option<i32> + Send>;

/// What is known of the calls of one program.
#[derive(Default)]
struct Desk {
    rules: HashMap<Number, Rule>,
    /// Calls seen, and those of them that failed by a rule.
    seen: usize,
    failed: usize,
}

/// A server whose calls are supervised.
pub(crate) struct Supervised {
    pub(crate) server: Server,
    desk: Arc<Mutex<Desk>>,
}

impl Supervised {
    /// Spawns `command`, whose `calls` are supervised; one that is `missing` fails with this error from the
    /// begin. `None` where that cannot be had.
    pub(crate) fn spawn(
        mut command: Command,
        calls: &[Number],
        missing: Option<(Number, i32)>,
    ) -> Option<Self> {
        static IS_THERE: OnceLock<bool> = OnceLock::new();
        let probe = || {
            let mut probe = Command::new("true");
            supervise(&mut probe, &[libc::SYS_close], Arc::default()).ok()?;
            probe.stdin(Stdio::null()).status().ok().map(|status| status.success())
        };
        if !IS_THERE.get_or_init(|| probe().unwrap_or(false)) {
            return None;
        }
        let desk: Arc<Mutex<Desk>> = Arc::default();
        if let Some((call, errno)) = missing {
            lock(&desk).rules.insert(call, Box::new(move |_| Some(errno)));
        }
        supervise(&mut command, calls, Arc::clone(&desk)).expect("it was possible just now");
        Some(Self { server: Server::spawn(&mut command), desk })
    }

    /// Has `rule` say what becomes of each `call` from now on.
    pub(crate) fn rule(&self, call: Number, rule: impl FnMut(&Args) -> Option<i32> + Send + 'static) {
        lock(&self.desk).rules.insert(call, Box::new(rule));
    }

    /// Lets the next `times` of `call` that are `meant` fail with `errno`.
    pub(crate) fn fail(&self, call: Number, errno: i32, times: usize, meant: fn(&Args) -> bool) {
        let mut left = times;
        self.rule(call, move |args| {
            let fails = left > 0 && meant(args);
            left -= usize::from(fails);
            fails.then_some(errno)
        });
    }

    /// Lets every `call` go from now on.
    pub(crate) fn lift(&self, call: Number) {
        lock(&self.desk).rules.remove(&call);
    }

    /// Supervised calls so far, and how many of them have failed by a rule.
    pub(crate) fn counts(&self) -> (usize, usize) {
        let desk = lock(&self.desk);
        (desk.seen, desk.failed)
    }
}

/// A rule that panicked has failed its test already.
fn lock(desk: &Mutex<Desk>) -> MutexGuard<'_, Desk> {
    desk.lock().unwrap_or_else(|poisoned| poisoned.into_inner())
}

/// Has `command` begin under a filter for `calls`, and a thread that answers for them as `desk` says until
/// the program has ended.
fn supervise(command: &mut Command, calls: &[Number], desk: Arc<Mutex<Desk>>) -> io::Result<()> {
    let (ours, theirs) = UnixStream::pair()?;
    let filter = filter(calls);
    let install = move || {
        let listener = install(&filter)?;
        send_descriptor(theirs.as_raw_fd(), listener.as_raw_fd())
    };
    // SAFETY: between fork and exec it only makes system calls; its memory was allocated before.
    unsafe { command.pre_exec(install) };
    thread::spawn(move || {
        // Without a descriptor the program has not begun.
        if let Ok(listener) = receive_descriptor(ours.as_raw_fd()) {
            drop(ours);
            while let Ok(Some(notice)) = next(&listener) {
                let mut desk = lock(&desk);
                desk.seen += 1;
                let rule = desk.rules.get_mut(&Number::from(notice.data.nr));
                let errno = rule.and_then(|rule| rule(&notice.data.args));
                desk.failed += usize::from(errno.is_some());
                drop(desk);
                answer(&listener, notice.id, errno);
            }
        }
    });
    Ok(())
}

/// A program for the kernel: `calls` are asked about, all others go.
fn filter(calls: &[Number]) -> Vec<libc::sock_filter> {
    let statement = |code: u32, jt: usize, k: u32| libc::sock_filter {
        code: code as u16,
        jt: u8::try_from(jt).expect("few calls"),
        jf: 0,
        k,
    };
    let number = offset_of!(libc::seccomp_data, nr) as u32;
    let mut program = vec![statement(libc::BPF_LD | libc::BPF_W | libc::BPF_ABS, 0, number)];
    for (index, &call) in calls.iter().enumerate() {
        let past_the_rest = calls.len() - index;
        program.push(statement(libc::BPF_JMP | libc::BPF_JEQ | libc::BPF_K, past_the_rest, call as u32));
    }
    program.push(statement(libc::BPF_RET | libc::BPF_K, 0, libc::SECCOMP_RET_ALLOW));
    program.push(statement(libc::BPF_RET | libc::BPF_K, 0, libc::SECCOMP_RET_USER_NOTIF));
    program
}

/// What `result` says, as a call of the C library says it.
fn checked(result: libc::c_long) -> io::Result<libc::c_long> {
    if result < 0 { Err(io::Error::last_os_error()) } else { Ok(result) }
}

/// Puts this thread under `filter` for good; the descriptor at which its calls are asked about.
fn install(filter: &[libc::sock_filter]) -> io::Result<OwnedFd> {
    let program =
        libc::sock_fprog { len: filter.len() as libc::c_ushort, filter: filter.as_ptr().cast_mut() };
    // SAFETY: both calls read nothing but their arguments and `program`, which is live and not written to.
    let listener = unsafe {
        checked(libc::prctl(libc::PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0).into())?;
        checked(libc::syscall(
            libc::SYS_seccomp,
            libc::SECCOMP_SET_MODE_FILTER,
            libc::SECCOMP_FILTER_FLAG_NEW_LISTENER,
            &raw const program,
        ))?
    };
    // SAFETY: the kernel has just returned this descriptor and nobody else knows it.
    Ok(unsafe { OwnedFd::from_raw_fd(listener as RawFd) })
}

/// Room for a message of one byte and one descriptor, cmsg(3). As u64s it is aligned for a `cmsghdr`.
#[derive(Default)]
struct Envelope {
    byte: u8,
    control: [u64; 8],
}

impl Envelope {
    /// The message to send from it or to receive into it; `act` is given it while it is valid.
    fn with(&mut self, act: impl FnOnce(&mut libc::msghdr) -> io::Result<()>) -> io::Result<()> {
        let mut piece = libc::iovec { iov_base: (&raw mut self.byte).cast(), iov_len: 1 };
        // SAFETY: `msghdr` is a plain C structure for which all zeros is a valid value.
        let mut message: libc::msghdr = unsafe { zeroed() };
        message.msg_iov = &raw mut piece;
        message.msg_iovlen = 1;
        message.msg_control = self.control.as_mut_ptr().cast();
        // SAFETY: CMSG_SPACE computes with its argument only.
        message.msg_controllen = unsafe { libc::CMSG_SPACE(size_of::<RawFd>() as u32) } as _;
        act(&mut message)
    }
}

fn send_descriptor(socket: RawFd, descriptor: RawFd) -> io::Result<()> {
    Envelope::default().with(|message| {
        // SAFETY: `message` has room for one control message of one descriptor, and is live.
        unsafe {
            let control = libc::CMSG_FIRSTHDR(message);
            (*control).cmsg_level = libc::SOL_SOCKET;
            (*control).cmsg_type = libc::SCM_RIGHTS;
            (*control).cmsg_len = libc::CMSG_LEN(size_of::<RawFd>() as u32) as _;
            libc::CMSG_DATA(control).cast::<RawFd>().write_unaligned(descriptor);
            checked(libc::sendmsg(socket, message, 0) as libc::c_long).map(drop)
        }
    })
}

fn receive_descriptor(socket: RawFd) -> io::Result<OwnedFd> {
    let mut received = None;
    Envelope::default().with(|message| {
        // SAFETY: `message` is live and says how much room it has; what the kernel puts there is read only
        // if there is a control message.
        unsafe {
            checked(libc::recvmsg(socket, message, libc::MSG_CMSG_CLOEXEC) as libc::c_long)?;
            let control = libc::CMSG_FIRSTHDR(message);
            if !control.is_null() && (*control).cmsg_type == libc::SCM_RIGHTS {
                let descriptor = libc::CMSG_DATA(control).cast::<RawFd>().read_unaligned();
                received = Some(OwnedFd::from_raw_fd(descriptor));
            }
        }
        Ok(())
    })?;
    received.ok_or_else(|| io::ErrorKind::UnexpectedEof.into())
}

/// The next call that waits, or `None` when the program has ended.
fn next(listener: &OwnedFd) -> io::Result<Option<libc::seccomp_notif>> {
    loop {
        let mut polled = libc::pollfd { fd: listener.as_raw_fd(), events: libc::POLLIN, revents: 0 };
        // SAFETY: `polled` is one live `pollfd`.
        let ready = checked(unsafe { libc::poll(&raw mut polled, 1, -1) }.into());
        match ready {
            Err(error) if error.kind() == io::ErrorKind::Interrupted => continue,
            ready => ready?,
        };
        if polled.revents & libc::POLLIN == 0 {
            return Ok(None);
        }
        // SAFETY: all zeros is a valid value, and the one that the kernel asks for.
        let mut notice: libc::seccomp_notif = unsafe { zeroed() };
        // SAFETY: `notice` is a live `seccomp_notif`, which the kernel fills.
        let taken = checked(
            unsafe { libc::ioctl(listener.as_raw_fd(), libc::SECCOMP_IOCTL_NOTIF_RECV, &raw mut notice) }
                .into(),
        );
        match taken {
            Ok(_) => return Ok(Some(notice)),
            // A signal has ended the wait of that call.
            Err(error) if matches!(error.raw_os_error(), Some(libc::ENOENT | libc::EINTR)) => {}
            Err(error) => return Err(error),
        }
    }
}

/// Lets the call `id` fail with `errno`, or go.
fn answer(listener: &OwnedFd, id: u64, errno: Option<i32>) {
    let mut answer = libc::seccomp_notif_resp {
        id,
        val: 0,
        error: errno.map_or(0, |errno| -errno),
        flags: if errno.is_some() { 0 } else { libc::SECCOMP_USER_NOTIF_FLAG_CONTINUE as u32 },
    };
    // SAFETY: `answer` is a live `seccomp_notif_resp`. If a signal has ended the wait nobody is answered.
    unsafe { libc::ioctl(listener.as_raw_fd(), libc::SECCOMP_IOCTL_NOTIF_SEND, &raw mut answer) };
}
