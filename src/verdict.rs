//! Who was the limit? Figures → one or two sentences, and no more than the figures show.

/// Fewer requests than this say nothing. Arbitrary, as is the time below.
const REQUESTS_MIN: u64 = 100;

/// Seconds with traffic below which shares of time say nothing: the clocks tick every 4 or 10 ms.
const ACTIVE_MIN_S: f64 = 0.1;

/// Share of time from which on a worker has none to spare.
const BUSY: f64 = 0.9;

/// Share of time spent waiting for a CPU from which on somebody else is using it. Housekeeping of a
/// quiet machine takes below 1 %.
const CROWDED: f64 = 0.1;

/// Connections per request from which on connections are what was measured.
const FRESH: f64 = 0.9;

/// Requests of the busiest worker by those of the mean, from which on they are spread unevenly.
const UNEVEN: f64 = 1.5;

/// What a verdict is drawn from.
#[derive(Clone, Copy, Debug, Default)]
pub struct Evidence<'e> {
    /// Requests answered.
    pub requests: u64,
    /// Connections accepted.
    pub connections: u64,
    /// Seconds with traffic.
    pub active_s: f64,
    /// CPU time by time with traffic, of the busiest worker.
    pub busy: Option<f64>,
    /// Time spent waiting for a CPU by time with traffic, of the worker that waited most.
    pub waited: Option<f64>,
    /// Workers.
    pub workers: usize,
    /// Requests of the busiest worker by those of the mean.
    pub imbalance: Option<f64>,
    /// Times that an accept queue of this host was full.
    pub overflows: u64,
    /// Pending connections that the kernel grants.
    pub backlog: u32,
    /// What the client that was read last calls itself.
    pub user_agent: Option<&'e str>,
}

/// Who was the limit, and what else one must know about the figures.
pub fn verdict(evidence: &Evidence<'_>) -> String {
    let limit = limit(evidence);
    match remark(evidence) {
        Some(remark) => format!("{limit} {remark}"),
        None => limit,
    }
}

fn limit(evidence: &Evidence<'_>) -> String {
    let Evidence { requests, active_s, busy, waited, workers, .. } = *evidence;
    if requests == 0 {
        return "No request was answered, so there is nothing to judge.".to_owned();
    }
    let (Some(busy), true) = (busy, requests >= REQUESTS_MIN && active_s >= ACTIVE_MIN_S) else {
        return format!(
            "There was too little traffic to judge: {requests} request{} within {active_s:.2} s.",
            if requests == 1 { "" } else { "s" }
        );
    };
    let who = if workers == 1 { "tared" } else { "The busiest worker of tared" };
    let (share, waited) = (busy * 100.0, waited.unwrap_or_default());
    if waited >= CROWDED {
        format!(
            "{who} could have run but waited for its CPU {:.0} % of the time (busy {share:.0} %): another \
             program, most likely the client, shares its core. Give each its own with taskset.",
            waited * 100.0
        )
    } else if busy >= BUSY {
        format!("{who} was busy {share:.0} % of the time, so tared was the limit.")
    } else {
        format!(
            "{who} was busy {share:.0} % of the time, so the client (or the wire) was the limit, and the \
             requests per second say nothing about tared."
        )
    }
}

fn remark(evidence: &Evidence<'_>) -> Option<String> {
    let Evidence { requests, connections, overflows, backlog, imbalance, .. } = *evidence;
    if overflows > 0 {
        return Some(format!(
            "An accept queue of this host overflowed {overflows} times: clients had to send again what was \
             dropped, and latencies contain the wait. Raise --backlog (granted: {backlog}) and \
             net.core.somaxconn."
        ));
    }
    if requests >= REQUESTS_MIN && connections as f64 >= requests as f64 * FRESH {
        let hint = evidence.user_agent.and_then(keep_alive_hint).unwrap_or_default();
        return Some(format!(
            "Nearly every request opened a connection, so TCP's set-up was measured more than HTTP.{hint}"
        ));
    }
    let imbalance = imbalance.filter(|&imbalance| requests >= REQUESTS_MIN && imbalance >= UNEVEN)?;
    Some(format!(
        "The busiest worker had {imbalance:.1} times the requests of the mean: more connections spread better."
    ))
}

/// How the tool that calls itself so is asked to keep connections open.
fn keep_alive_hint(user_agent: &str) -> Option<String> {
    let hints = [
        ("ApacheBench/", "ab keeps connections with -k."),
        ("Siege/", "siege keeps connections with 'connection = keep-alive' in its siege.conf."),
        ("httperf/", "httperf makes several requests a connection with --num-calls."),
        ("wrk", "wrk keeps connections unless a header says 'Connection: close'."),
        ("hey/", "hey keeps connections without -disable-keepalive."),
        ("oha/", "oha keeps connections without --disable-keepalive."),
        ("autocannon", "autocannon keeps connections without --reconnectRate."),
    ];
    let (_, how) = hints.into_iter().find(|(name, _)| user_agent.contains(name))?;
    Some(format!(" {how}"))
}

#[cfg(test)]
mod tests {
    use super::*;

    const QUIET: Evidence<'static> = Evidence {
        requests: 1_000_000,
        connections: 20,
        active_s: 10.0,
        busy: Some(0.31),
        waited: Some(0.001),
        workers: 1,
        imbalance: None,
        overflows: 0,
        backlog: 4096,
        user_agent: None,
    };

    #[test]
    fn the_limit_is_whoever_had_no_time_to_spare() {
        for (evidence, parts) in [
            (QUIET, vec!["tared was busy 31 %", "the client (or the wire) was the limit", "say nothing"]),
            (Evidence { busy: Some(0.89), ..QUIET }, vec!["busy 89 %", "the client (or the wire)"]),
            (Evidence { busy: Some(0.9), ..QUIET }, vec!["busy 90 %", "tared was the limit"]),
            (
                Evidence { busy: Some(0.99), workers: 2, ..QUIET },
                vec!["The busiest worker of tared was busy 99 %", "tared was the limit"],
            ),
            (
                Evidence { busy: Some(0.52), waited: Some(0.45), ..QUIET },
                vec!["waited for its CPU 45 %", "busy 52 %", "most likely the client", "taskset"],
            ),
            (
                Evidence { busy: Some(0.99), waited: Some(0.1), ..QUIET },
                vec!["waited for its CPU 10 %", "shares its core"],
            ),
        ] {
            let verdict = verdict(&evidence);
            assert!(parts.iter().all(|part| verdict.contains(part)), "{evidence:?}: {verdict}");
        }
    }

    #[test]
    fn what_the_figures_do_not_show_is_not_said() {
        let one = Evidence { requests: 1, connections: 1, active_s: 0.0, busy: None, ..QUIET };
        let few = Evidence { requests: 99, connections: 99, ..QUIET };
        let brief = Evidence { active_s: 0.05, ..QUIET };
        for (evidence, part) in [
            (Evidence { requests: 0, connections: 0, busy: None, ..QUIET }, "No request was answered"),
            (one, "1 request within 0.00 s"),
            (few, "99 requests within"),
            (brief, "within 0.05 s"),
        ] {
            let verdict = verdict(&evidence);
            assert!(verdict.contains(part), "{evidence:?}: {verdict}");
            assert!(!verdict.contains("limit") && !verdict.contains("TCP"), "{evidence:?}: {verdict}");
        }
    }

    #[test]
    fn a_remark_names_what_distorts_the_figures() {
        let fresh = Evidence { connections: 1_000_000, ..QUIET };
        let overflow = Evidence { overflows: 3, ..fresh };
        for (evidence, parts) in [
            (fresh, vec!["Nearly every request opened a connection"]),
            (Evidence { user_agent: Some("ApacheBench/2.3"), ..fresh }, vec!["ab keeps connections with -k"]),
            (
                Evidence { user_agent: Some("Mozilla/5.0 (pc-x86_64-linux-gnu) Siege/4.0.7"), ..fresh },
                vec!["siege.conf"],
            ),
            (Evidence { user_agent: Some("httperf/0.9.0"), ..fresh }, vec!["--num-calls"]),
            (Evidence { user_agent: Some("wrk"), ..fresh }, vec!["wrk keeps connections unless"]),
            (Evidence { user_agent: Some("hey/0.0.1"), ..fresh }, vec!["without -disable-keepalive"]),
            (Evidence { user_agent: Some("oha/1.4.5"), ..fresh }, vec!["without --disable-keepalive"]),
            (Evidence { user_agent: Some("autocannon"), ..fresh }, vec!["--reconnectRate"]),
            (overflow, vec!["overflowed 3 times", "--backlog (granted: 4096)", "net.core.somaxconn"]),
            (Evidence { workers: 4, imbalance: Some(2.5), ..QUIET }, vec!["2.5 times the requests"]),
        ] {
            let verdict = verdict(&evidence);
            assert!(parts.iter().all(|part| verdict.contains(part)), "{evidence:?}: {verdict}");
        }
        let unknown = verdict(&Evidence { user_agent: Some("curl/8.0"), ..fresh });
        assert!(unknown.ends_with("more than HTTP."), "{unknown}");
        for quiet in [QUIET, Evidence { workers: 2, imbalance: Some(1.1), ..QUIET }] {
            assert!(verdict(&quiet).ends_with("say nothing about tared."));
        }
    }
}
