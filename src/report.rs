//! What the workers counted → one report, as text for people and as JSON for scripts.
//!
//! The JSON is the [`Report`] itself. Its fields, their units and the schema's version are described in
//! the README; a test holds the two together. A ratio is null where there is nothing to divide by.

use std::collections::BTreeMap;
use std::fmt::Write;
use std::time::Duration;

use serde::{Serialize, Serializer};

use crate::environment::{Environment, Losses};
use crate::request::{Dialect, Method};
use crate::tally::Tally;
use crate::usage::{Traffic, Usage};
use crate::verdict::{Evidence, verdict};

/// Grows when a field changes its meaning or goes away; new fields do not count.
pub const SCHEMA: u32 = 1;

/// What one worker has done so far.
#[derive(Clone, Debug, Default)]
pub struct Snapshot {
    /// What it counted.
    pub tally: Tally,
    /// Connections that are open.
    pub open: u64,
    /// When it had something to do.
    pub traffic: Traffic,
    /// What it took of its CPU.
    pub usage: Usage,
    /// What the client calls itself whose head was read last.
    pub user_agent: Option<String>,
    /// The CPUs on which it may run.
    pub cpus: Vec<usize>,
}

/// A report.
#[derive(Clone, Debug, Serialize)]
#[allow(missing_docs)]
pub struct Report {
    pub schema: u32,
    pub mode: &'static str,
    pub window: Window,
    pub requests: Requests,
    pub bytes: Bytes,
    pub connections: Connections,
    pub dialect: Spoken,
    pub cost: Cost,
    pub system_calls: SystemCalls,
    pub cache: Cache,
    pub log: Log,
    pub kernel: Losses,
    pub workers: Workers,
    pub environment: Environment,
    pub verdict: String,
}

/// From the first connection accepted to the last byte that moved.
#[derive(Clone, Debug, Serialize)]
#[allow(missing_docs)]
pub struct Window {
    #[serde(serialize_with = "micros")]
    pub seconds: f64,
    #[serde(serialize_with = "micros")]
    pub traffic_seconds: f64,
    #[serde(serialize_with = "micros")]
    pub silent_seconds: f64,
}

#[derive(Clone, Debug, Serialize)]
#[allow(missing_docs)]
pub struct Requests {
    pub total: u64,
    #[serde(serialize_with = "thousandths")]
    pub per_second: Option<f64>,
    pub by_status: BTreeMap<&'static str, u64>,
    pub by_method: BTreeMap<&'static str, u64>,
}

#[derive(Clone, Debug, Serialize)]
#[allow(missing_docs)]
pub struct Bytes {
    pub received: u64,
    pub sent: u64,
}

#[derive(Clone, Debug, Serialize)]
#[allow(missing_docs)]
pub struct Connections {
    pub accepted: u64,
    pub open: u64,
    pub peak: u64,
    #[serde(serialize_with = "thousandths")]
    pub requests_each: Option<f64>,
    #[serde(serialize_with = "millionths")]
    pub kept_alive_share: Option<f64>,
    pub closed_by_client: u64,
    pub closed_by_server: u64,
    pub reset: u64,
    pub timed_out: u64,
    pub aborted: u64,
    pub closed_for_room: u64,
    pub accept_rests: u64,
}

#[derive(Clone, Debug, Serialize)]
#[allow(missing_docs)]
pub struct Spoken {
    pub http_1_0: u64,
    pub http_1_1: u64,
    pub keep_alive_asked: u64,
    pub close_asked: u64,
    pub without_host: u64,
    pub expect_continue: u64,
    pub malformed: u64,
    #[serde(serialize_with = "thousandths")]
    pub depth_mean: Option<f64>,
    pub depth_max: u64,
    #[serde(serialize_with = "thousandths")]
    pub head_bytes_mean: Option<f64>,
    pub user_agent: Option<String>,
}

#[derive(Clone, Debug, Serialize)]
#[allow(missing_docs)]
pub struct Cost {
    #[serde(serialize_with = "thousandths")]
    pub cpu_us_per_request: Option<f64>,
    #[serde(serialize_with = "thousandths")]
    pub cpu_user_us_per_request: Option<f64>,
    #[serde(serialize_with = "thousandths")]
    pub cpu_system_us_per_request: Option<f64>,
    #[serde(serialize_with = "micros")]
    pub cpu_seconds: f64,
    #[serde(serialize_with = "millionths")]
    pub busy_share: Option<f64>,
    #[serde(serialize_with = "millionths")]
    pub waited_share: Option<f64>,
}

#[derive(Clone, Debug, Serialize)]
#[allow(missing_docs)]
pub struct SystemCalls {
    pub total: u64,
    #[serde(serialize_with = "thousandths")]
    pub per_request: Option<f64>,
    #[serde(serialize_with = "millionths")]
    pub short_send_share: Option<f64>,
    pub by_kind: BTreeMap<&'static str, u64>,
}

#[derive(Clone, Debug, Serialize)]
#[allow(missing_docs)]
pub struct Cache {
    pub hits: u64,
    pub fills: u64,
}

#[derive(Clone, Debug, Serialize)]
#[allow(missing_docs)]
pub struct Log {
    pub lines: u64,
    pub dropped: u64,
}

#[derive(Clone, Debug, Serialize)]
#[allow(missing_docs)]
pub struct Workers {
    pub count: usize,
    #[serde(serialize_with = "thousandths")]
    pub imbalance: Option<f64>,
    pub each: Vec<Worker>,
}

#[derive(Clone, Debug, Serialize)]
#[allow(missing_docs)]
pub struct Worker {
    pub requests: u64,
    pub connections: u64,
    #[serde(serialize_with = "micros")]
    pub cpu_seconds: f64,
    #[serde(serialize_with = "millionths")]
    pub busy_share: Option<f64>,
    #[serde(serialize_with = "millionths")]
    pub waited_share: Option<f64>,
    pub cpus: Vec<usize>,
}

impl Report {
    /// Puts together what every worker has done. `mode` is what is served, `kernel` what was lost since
    /// the start.
    pub fn new(mode: &'static str, workers: &[Snapshot], kernel: Losses, environment: Environment) -> Self {
        let mut tally = Tally::default();
        workers.iter().for_each(|worker| tally += &worker.tally);
        let requests = tally.requests();
        let readable = requests - tally.refused();
        let traffic: Vec<Traffic> = workers.iter().map(|worker| worker.traffic).collect();
        let window_s = Traffic::window_of(&traffic).as_secs_f64();
        // Silence is where nobody had anything to do, so it is at the most what each of them had of it.
        let active_s = workers.iter().map(|worker| worker.traffic.active()).max().unwrap_or_default();
        let active_s = active_s.as_secs_f64();
        let user: Duration = workers.iter().map(|worker| worker.usage.user).sum();
        let system: Duration = workers.iter().map(|worker| worker.usage.system).sum();
        let each: Vec<Worker> = workers.iter().map(Worker::of).collect();
        let most = each.iter().map(|worker| worker.requests).max().unwrap_or_default();
        let imbalance =
            if each.len() > 1 { ratio(most as f64 * each.len() as f64, requests as f64) } else { None };
        let user_agent = workers.iter().find_map(|worker| worker.user_agent.clone());
        let highest = |share: fn(&Worker) -> Option<f64>| each.iter().filter_map(share).reduce(f64::max);
        let (busy, waited) = (highest(|worker| worker.busy_share), highest(|worker| worker.waited_share));
        let verdict = verdict(&Evidence {
            requests,
            connections: tally.connections.accepted,
            active_s,
            busy,
            waited,
            workers: each.len(),
            imbalance,
            overflows: kernel.listen_overflows,
            backlog: environment.backlog,
            user_agent: user_agent.as_deref(),
        });
        let us_each = |time: Duration| ratio(time.as_secs_f64() * 1e6, requests as f64);
        let calls = tally.calls;
        Self {
            schema: SCHEMA,
            mode,
            window: Window {
                seconds: window_s,
                traffic_seconds: active_s,
                silent_seconds: (window_s - active_s).max(0.0),
            },
            requests: Requests {
                total: requests,
                per_second: ratio(requests as f64, window_s),
                by_status: (0..)
                    .zip(["2xx", "3xx", "4xx", "5xx"])
                    .map(|(class, name)| (name, tally.of_class(class)))
                    .collect(),
                by_method: by_method(&tally),
            },
            bytes: Bytes { received: tally.bytes_received, sent: tally.bytes_sent },
            connections: Connections {
                accepted: tally.connections.accepted,
                open: workers.iter().map(|worker| worker.open).sum(),
                peak: tally.connections.peak,
                requests_each: ratio(requests as f64, tally.connections.accepted as f64),
                kept_alive_share: ratio(tally.kept() as f64, requests as f64),
                closed_by_client: tally.connections.by_client,
                closed_by_server: tally.connections.by_server,
                reset: tally.connections.reset,
                timed_out: tally.connections.timed_out,
                aborted: tally.connections.aborted,
                closed_for_room: tally.connections.made_room,
                accept_rests: tally.connections.rests,
            },
            dialect: Spoken {
                http_1_0: tally.spoken(|dialect| dialect.has(Dialect::HTTP_1_0)),
                http_1_1: tally.spoken(|dialect| !dialect.has(Dialect::HTTP_1_0)),
                keep_alive_asked: tally.spoken(|dialect| dialect.has(Dialect::KEEP_ALIVE)),
                close_asked: tally.spoken(|dialect| dialect.has(Dialect::CLOSE)),
                without_host: tally.spoken(|dialect| dialect.has(Dialect::HOSTLESS)),
                expect_continue: tally.spoken(|dialect| dialect.has(Dialect::EXPECT)),
                malformed: tally.refused(),
                depth_mean: ratio(requests as f64, tally.batches as f64),
                depth_max: tally.depth_max,
                head_bytes_mean: ratio(tally.head_bytes as f64, readable as f64),
                user_agent,
            },
            cost: Cost {
                cpu_us_per_request: us_each(user + system),
                cpu_user_us_per_request: us_each(user),
                cpu_system_us_per_request: us_each(system),
                cpu_seconds: (user + system).as_secs_f64(),
                busy_share: busy,
                waited_share: waited,
            },
            system_calls: SystemCalls {
                total: calls.total(),
                per_request: ratio(calls.total() as f64, requests as f64),
                short_send_share: ratio(tally.sends_short as f64, calls.sends() as f64),
                by_kind: calls.named().collect(),
            },
            cache: Cache { hits: tally.cache_hits, fills: tally.cache_fills },
            log: Log { lines: tally.log_lines, dropped: tally.log_dropped },
            kernel,
            workers: Workers { count: each.len(), imbalance, each },
            environment,
            verdict,
        }
    }

    /// One JSON object on one line.
    pub fn json(&self) -> String {
        let mut line = serde_json::to_string(self).expect("its maps have text for keys");
        line.push('\n');
        line
    }

    /// For people.
    pub fn text(&self) -> String {
        let mut lines = Lines(String::new());
        let Window { seconds, traffic_seconds, silent_seconds } = self.window;
        lines.add(
            "window",
            format!("{seconds:.2} s: {traffic_seconds:.2} s with traffic, {silent_seconds:.2} s without"),
        );
        let Requests { total, per_second, by_status, by_method } = &self.requests;
        lines.add(
            "requests",
            format!("{}, {} a second over the window", grouped(*total), shown(*per_second, 0, "")),
        );
        lines.add("", format!("{}; {}", counts(by_status), counts(by_method)));
        let Bytes { received, sent } = self.bytes;
        lines.add("bytes", format!("{} received, {} sent", grouped(received), grouped(sent)));
        let connections = &self.connections;
        lines.add(
            "connections",
            format!(
                "{} accepted, {} open, {} at the most; {} requests each, {} kept alive",
                grouped(connections.accepted),
                grouped(connections.open),
                grouped(connections.peak),
                shown(connections.requests_each, 1, ""),
                percent(connections.kept_alive_share),
            ),
        );
        lines.add(
            "",
            format!(
                "closed: {} by the client, {} by us, {} reset, {} timed out; {} in mid-response",
                grouped(connections.closed_by_client),
                grouped(connections.closed_by_server),
                grouped(connections.reset),
                grouped(connections.timed_out),
                grouped(connections.aborted),
            ),
        );
        if connections.closed_for_room > 0 {
            let closed = grouped(connections.closed_for_room);
            lines.add("", format!("{closed} of them closed idle, since there was no room"));
        }
        if connections.accept_rests > 0 {
            lines.add(
                "",
                format!(
                    "accepting rested {} times, since there was no room",
                    grouped(connections.accept_rests)
                ),
            );
        }
        let spoken = &self.dialect;
        lines.add(
            "dialect",
            format!(
                "HTTP/1.1 {}, HTTP/1.0 {}; asked to keep alive {}, to close {}",
                grouped(spoken.http_1_1),
                grouped(spoken.http_1_0),
                grouped(spoken.keep_alive_asked),
                grouped(spoken.close_asked),
            ),
        );
        lines.add(
            "",
            format!(
                "without Host {}, with Expect {}, malformed {}",
                grouped(spoken.without_host),
                grouped(spoken.expect_continue),
                grouped(spoken.malformed),
            ),
        );
        lines.add(
            "",
            format!(
                "pipelined {} deep, {} at the most; {} bytes a head",
                shown(spoken.depth_mean, 2, ""),
                grouped(spoken.depth_max),
                shown(spoken.head_bytes_mean, 0, ""),
            ),
        );
        let cost = &self.cost;
        lines.add(
            "cost",
            format!(
                "{} of CPU per request ({} user, {} system); busy {}, waited for a CPU {}",
                shown(cost.cpu_us_per_request, 2, " µs"),
                shown(cost.cpu_user_us_per_request, 2, ""),
                shown(cost.cpu_system_us_per_request, 2, ""),
                percent(cost.busy_share),
                percent(cost.waited_share),
            ),
        );
        let calls = &self.system_calls;
        let made: BTreeMap<_, _> = calls
            .by_kind
            .iter()
            .filter(|(_, count)| **count > 0)
            .map(|(name, count)| (*name, *count))
            .collect();
        lines.add(
            "system calls",
            format!(
                "{} per request, {} of the sends short",
                shown(calls.per_request, 2, ""),
                percent(calls.short_send_share)
            ),
        );
        lines.add("", counts(&made));
        if self.cache.hits + self.cache.fills > 0 {
            lines.add(
                "cache",
                format!("{} hits, {} fills", grouped(self.cache.hits), grouped(self.cache.fills)),
            );
        }
        let Log { lines: written, dropped } = self.log;
        if written + dropped > 0 {
            lines.add("log", format!("{} lines written, {} dropped", grouped(written), grouped(dropped)));
        }
        let Losses { listen_overflows, listen_drops } = self.kernel;
        lines.add(
            "kernel",
            format!(
                "{} accept queue overflows, {} drops, of all programs here",
                grouped(listen_overflows),
                grouped(listen_drops)
            ),
        );
        if self.workers.count > 1 {
            for (index, worker) in self.workers.each.iter().enumerate() {
                lines.add(
                    if index == 0 { "workers" } else { "" },
                    format!(
                        "{index}: {} requests, {} connections, busy {}",
                        grouped(worker.requests),
                        grouped(worker.connections),
                        percent(worker.busy_share),
                    ),
                );
            }
            lines.add(
                "",
                format!(
                    "the busiest had {} times the requests of the mean",
                    shown(self.workers.imbalance, 2, "")
                ),
            );
        }
        let Environment { version, kernel, cpu, cpus, descriptors, backlog } = &self.environment;
        let descriptors = descriptors.map_or("unlimited".to_owned(), grouped);
        lines.add(
            "environment",
            format!(
                "tared {version}, {kernel}; {cpu}, {cpus} CPUs; {descriptors} descriptors, backlog {backlog}"
            ),
        );
        lines.add("verdict", self.verdict.clone());
        lines.0
    }
}

impl Worker {
    fn of(worker: &Snapshot) -> Self {
        let active_s = worker.traffic.active().as_secs_f64();
        // The window ends when the last turn begins, so a busy one may take a little more than all of it.
        let share = |time: Duration| ratio(time.as_secs_f64(), active_s).map(|share| share.min(1.0));
        Self {
            requests: worker.tally.requests(),
            connections: worker.tally.connections.accepted,
            cpu_seconds: worker.usage.cpu().as_secs_f64(),
            busy_share: share(worker.usage.cpu()),
            waited_share: share(worker.usage.waited),
            cpus: worker.cpus.clone(),
        }
    }
}

fn by_method(tally: &Tally) -> BTreeMap<&'static str, u64> {
    let methods = [
        ("GET", Method::Get),
        ("HEAD", Method::Head),
        ("OPTIONS", Method::Options),
        ("CONNECT", Method::Connect),
        ("TRACE", Method::Trace),
        ("other", Method::Other),
    ];
    let counted = methods.into_iter().map(|(name, method)| (name, tally.of_method(method)));
    counted.chain([("malformed", tally.refused())]).collect()
}

fn ratio(part: f64, whole: f64) -> Option<f64> {
    (whole > 0.0).then(|| part / whole)
}

// ---- Text ---------------------------------------------------------------------------

struct Lines(String);

impl Lines {
    fn add(&mut self, label: &str, text: String) {
        // Writing to a string does not fail.
        let _ = writeln!(self.0, "  {label:<13}{text}");
    }
}

/// 1234567 as `1,234,567`.
fn grouped(number: impl std::borrow::Borrow<u64>) -> String {
    let digits = number.borrow().to_string();
    let groups: Vec<&str> =
        digits.as_bytes().rchunks(3).rev().filter_map(|group| str::from_utf8(group).ok()).collect();
    groups.join(",")
}

fn shown(number: Option<f64>, decimals: usize, unit: &str) -> String {
    number.map_or("-".to_owned(), |number| match decimals {
        0 => grouped(number.round() as u64),
        _ => format!("{number:.decimals$}{unit}"),
    })
}

fn percent(share: Option<f64>) -> String {
    share.map_or("-".to_owned(), |share| format!("{:.1} %", share * 100.0))
}

fn counts(counts: &BTreeMap<&'static str, u64>) -> String {
    let shown: Vec<String> = counts
        .iter()
        .filter(|(_, count)| **count > 0)
        .map(|(name, count)| format!("{name} {}", grouped(count)))
        .collect();
    if shown.is_empty() { "none".to_owned() } else { shown.join(", ") }
}

// ---- JSON: no more digits than the clocks have -----------------------------------------

#[allow(clippy::trivially_copy_pass_by_ref)]
fn micros<S: Serializer>(seconds: &f64, serializer: S) -> Result<S::Ok, S::Error> {
    serializer.serialize_f64((seconds * 1e6).round() / 1e6)
}

fn thousandths<S: Serializer>(number: &Option<f64>, serializer: S) -> Result<S::Ok, S::Error> {
    number.map(|number| (number * 1e3).round() / 1e3).serialize(serializer)
}

fn millionths<S: Serializer>(share: &Option<f64>, serializer: S) -> Result<S::Ok, S::Error> {
    share.map(|share| (share * 1e6).round() / 1e6).serialize(serializer)
}

#[cfg(test)]
mod tests {
    use std::time::Instant;

    use super::*;
    use crate::tally::{Asked, Call, Ending};

    fn environment() -> Environment {
        Environment {
            version: "1.2.3",
            kernel: "Linux 6.1 x86_64".into(),
            cpu: "A CPU".into(),
            cpus: 4,
            descriptors: Some(1024),
            backlog: 4096,
        }
    }

    fn report(workers: &[Snapshot]) -> Report {
        Report::new("fixed", workers, Losses::default(), environment())
    }

    /// A worker that answered so many requests within 2 s with traffic and 3 s without, for which it took 1 s.
    fn worker(requests: u64) -> Snapshot {
        let start = Instant::now();
        let mut traffic = Traffic::default();
        for millis in [0, 1000, 4000, 5000] {
            traffic.note(start + Duration::from_millis(millis));
        }
        let mut tally = Tally::default();
        (tally.bytes_received, tally.bytes_sent) = (1_234_567, 7);
        let asked = Asked { method: Method::Get, dialect: Dialect::HTTP_1_0, head_len: 30 };
        for _ in 0..requests {
            tally.count_answer(asked, 0, true);
            tally.count_batch();
            tally.calls.count(Call::RecvFrom);
            tally.calls.count(Call::SendTo);
        }
        tally.connections.accepted = 2;
        tally.connections.peak = 2;
        tally.count_ending(Ending::ByClient, false);
        Snapshot {
            tally,
            open: 1,
            traffic,
            usage: Usage {
                user: Duration::from_millis(600),
                system: Duration::from_millis(400),
                waited: Duration::from_millis(20),
            },
            user_agent: None,
            cpus: vec![0, 1],
        }
    }

    #[track_caller]
    fn check(text: &str, parts: &[&str]) {
        for part in parts {
            assert!(text.contains(part), "{part:?} is not in\n{text}");
        }
        for line in text.lines() {
            // A label, and what is told of it in one column.
            assert!(line.starts_with("  ") && line[15..].starts_with(|c: char| c != ' '), "{line:?}");
        }
        assert!(!text.contains("NaN") && !text.contains("inf"), "{text}");
    }

    #[test]
    fn an_empty_run_has_dashes_and_no_numbers_that_are_none() {
        let report = report(&[Snapshot::default()]);
        let parts = [
            "0.00 s with traffic",
            "requests     0, - a second",
            "none; none",
            "- requests each, - kept alive",
            "cost         - of CPU per request (- user, - system); busy -, waited for a CPU -",
            "verdict      No request was answered",
        ];
        check(&report.text(), &parts);
        assert!(!report.text().contains("workers") && !report.text().contains("cache"));
        assert!(!report.text().contains("  log "), "{}", report.text());
        let json: serde_json::Value = serde_json::from_str(&report.json()).unwrap();
        for (path, value) in [
            ("/requests/total", "0"),
            ("/requests/per_second", "null"),
            ("/connections/requests_each", "null"),
            ("/connections/kept_alive_share", "null"),
            ("/dialect/depth_mean", "null"),
            ("/dialect/head_bytes_mean", "null"),
            ("/cost/cpu_us_per_request", "null"),
            ("/cost/busy_share", "null"),
            ("/system_calls/short_send_share", "null"),
            ("/workers/imbalance", "null"),
        ] {
            assert_eq!(json.pointer(path).unwrap().to_string(), value, "{path}");
        }
    }

    #[test]
    fn one_worker_is_the_whole() {
        let report = report(&[worker(1000)]);
        let parts = [
            "5.00 s: 2.00 s with traffic, 3.00 s without",
            "requests     1,000, 200 a second",
            "2xx 1,000; GET 1,000",
            "bytes        1,234,567 received, 7 sent",
            "2 accepted, 1 open, 2 at the most; 500.0 requests each, 100.0 % kept alive",
            "closed: 1 by the client, 0 by us, 0 reset, 0 timed out; 0 in mid-response",
            "HTTP/1.1 0, HTTP/1.0 1,000",
            "pipelined 1.00 deep, 1 at the most; 30 bytes a head",
            "1000.00 µs of CPU per request (600.00 user, 400.00 system); busy 50.0 %, waited for a CPU 1.0 %",
            "2.00 per request, 0.0 % of the sends short",
            "close 1, recvfrom 1,000, sendto 1,000",
            "tared 1.2.3, Linux 6.1 x86_64; A CPU, 4 CPUs; 1,024 descriptors, backlog 4096",
            "verdict      tared was busy 50 % of the time, so the client",
        ];
        check(&report.text(), &parts);
        assert!(!report.text().contains("  workers "), "there is nobody to compare with");
        assert_eq!(report.workers.imbalance, None);
    }

    #[test]
    fn two_workers_add_up_and_the_busiest_is_told() {
        let idle = Snapshot { usage: Usage::default(), ..worker(1000) };
        let report = report(&[worker(3000), idle]);
        let parts = [
            "requests     4,000, ",
            "4 accepted, 2 open, 4 at the most",
            "workers      0: 3,000 requests, 2 connections, busy 50.0 %",
            "1: 1,000 requests, 2 connections, busy 0.0 %",
            "the busiest had 1.50 times the requests of the mean",
            // The CPU of both by the requests of both; the share is the busiest one's.
            "250.00 µs of CPU per request",
            "verdict      The busiest worker of tared was busy 50 %",
        ];
        check(&report.text(), &parts);
        let each: Vec<u64> = report.workers.each.iter().map(|worker| worker.requests).collect();
        assert_eq!((report.workers.count, each), (2, vec![3000, 1000]));
    }

    #[test]
    fn no_share_of_time_is_more_than_all_of_it() {
        let busy = Usage { user: Duration::from_secs(3), ..Usage::default() };
        let report = report(&[Snapshot { usage: busy, ..worker(1000) }]);
        assert_eq!((report.cost.busy_share, report.cost.cpu_seconds), (Some(1.0), 3.0));
    }

    #[test]
    fn what_the_kernel_lost_and_what_there_was_too_little_of_is_told() {
        let mut starved = worker(1000);
        starved.tally.connections.rests = 3;
        (starved.tally.log_lines, starved.tally.log_dropped) = (1_234, 5_678);
        let lost = Losses { listen_overflows: 5, listen_drops: 1_006 };
        let environment = Environment { descriptors: None, ..environment() };
        let report = Report::new("directory", &[starved], lost, environment);
        let parts = [
            "accepting rested 3 times",
            "log          1,234 lines written, 5,678 dropped",
            "5 accept queue overflows, 1,006 drops",
            "unlimited descriptors",
            "overflowed 5 times",
        ];
        check(&report.text(), &parts);
    }

    #[test]
    fn numbers_are_grouped_by_thousands() {
        for (number, text) in [
            (0, "0"),
            (999, "999"),
            (1000, "1,000"),
            (1_234_567, "1,234,567"),
            (u64::MAX, "18,446,744,073,709,551,615"),
        ] {
            assert_eq!(grouped(number), text);
        }
        assert_eq!(
            (shown(Some(1234.56), 0, ""), shown(Some(1234.56), 1, " µs")),
            ("1,235".into(), "1234.6 µs".into())
        );
        assert_eq!(
            (shown(None, 2, " µs"), percent(None), percent(Some(0.1234))),
            ("-".into(), "-".into(), "12.3 %".into())
        );
    }
}
