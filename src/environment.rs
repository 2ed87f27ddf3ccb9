//! What the kernel and the machine say of themselves, for the report. Read at start and when a report
//! is made, never in between.

use std::fs;
use std::io;

use rustix::process::{Resource, getrlimit};
use rustix::system::uname;
use rustix::thread::{CpuSet, sched_getaffinity};
use serde::Serialize;

use crate::bind::backlog_cap;

/// Where a run took place.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Environment {
    /// Version of tared.
    pub version: &'static str,
    /// Name, release and machine, as uname(1) has them.
    pub kernel: String,
    /// Model of the first CPU, as /proc/cpuinfo has it.
    pub cpu: String,
    /// CPUs on which this program may run.
    pub cpus: usize,
    /// Open files that are allowed: the soft limit (getrlimit(2)).
    pub descriptors: Option<u64>,
    /// Pending connections that the kernel grants.
    pub backlog: u32,
}

impl Environment {
    /// As it is now; `backlog` is what was asked for, `cpus` what there were before workers were pinned.
    pub fn read(backlog: u32, cpus: usize) -> Self {
        let name = uname();
        let parts = [name.sysname(), name.release(), name.machine()].map(|part| part.to_string_lossy());
        Self {
            version: env!("CARGO_PKG_VERSION"),
            kernel: parts.join(" "),
            cpu: fs::read_to_string("/proc/cpuinfo").ok().and_then(|text| model(&text)).unwrap_or_default(),
            cpus,
            descriptors: getrlimit(Resource::Nofile).current,
            backlog: backlog_cap(backlog).unwrap_or(backlog),
        }
    }
}

/// The CPU's name: x86 and Arm have different words for it.
fn model(cpuinfo: &str) -> Option<String> {
    let value = |key: &str| cpuinfo.lines().find_map(|line| line.strip_prefix(key)?.trim().strip_prefix(':'));
    ["model name", "Model", "CPU part"].into_iter().find_map(value).map(|name| name.trim().to_owned())
}

/// The CPUs on which this thread may run.
///
/// # Errors
/// What sched_getaffinity(2) says.
pub fn allowed_cpus() -> io::Result<Vec<usize>> {
    let set = sched_getaffinity(None)?;
    Ok((0..CpuSet::MAX_CPU).filter(|&cpu| set.is_set(cpu)).collect())
}

/// Connections that the kernel lost on their way to any listening socket of this network namespace
/// (TcpExt in /proc/net/netstat).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
pub struct Losses {
    /// The accept queue was full.
    pub listen_overflows: u64,
    /// For that and all other causes.
    pub listen_drops: u64,
}

impl Losses {
    /// Since the machine was started; zeros where the kernel does not tell.
    pub fn read() -> Self {
        fs::read_to_string("/proc/net/netstat").ok().and_then(|text| Self::parse(&text)).unwrap_or_default()
    }

    /// A line of names, then a line of numbers.
    fn parse(netstat: &str) -> Option<Self> {
        let mut lines = netstat.lines().filter_map(|line| line.strip_prefix("TcpExt:"));
        let (names, numbers) = (lines.next()?, lines.next()?);
        let value = |wanted: &str| {
            let mut pairs = names.split_ascii_whitespace().zip(numbers.split_ascii_whitespace());
            pairs.find(|(name, _)| *name == wanted)?.1.parse().ok()
        };
        Some(Self { listen_overflows: value("ListenOverflows")?, listen_drops: value("ListenDrops")? })
    }

    /// Those since `earlier`.
    pub fn since(self, earlier: Losses) -> Self {
        Self {
            listen_overflows: self.listen_overflows.saturating_sub(earlier.listen_overflows),
            listen_drops: self.listen_drops.saturating_sub(earlier.listen_drops),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_kernels_losses_are_found_by_name() {
        let text =
            "TcpExt: SyncookiesSent ListenOverflows ListenDrops X\nTcpExt: 5 7 9 11\nIpExt: A\nIpExt: 1\n";
        let losses = Losses::parse(text).unwrap();
        assert_eq!(losses, Losses { listen_overflows: 7, listen_drops: 9 });
        let earlier = Losses { listen_overflows: 2, listen_drops: 9 };
        assert_eq!(losses.since(earlier), Losses { listen_overflows: 5, listen_drops: 0 });
        for broken in ["", "TcpExt: ListenOverflows\n", "TcpExt: ListenOverflows\nTcpExt: x\n"] {
            assert_eq!(Losses::parse(broken), None);
        }
    }

    #[test]
    fn a_cpu_has_a_name() {
        let x86 = "processor\t: 0\nmodel\t\t: 1\nmodel name\t: AMD EPYC\nprocessor\t: 1\n";
        assert_eq!(model(x86).as_deref(), Some("AMD EPYC"));
        assert_eq!(model("processor : 0\nModel\t: Raspberry Pi 5\n").as_deref(), Some("Raspberry Pi 5"));
        assert_eq!(model(""), None);
    }
}
