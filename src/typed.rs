//! What can be typed: names, defaults and help (clap). Every value is text still.

use std::ffi::OsString;
use std::path::PathBuf;

use clap::builder::{FalseyValueParser, StyledStr, ValueHint};
use clap::{Arg, ArgAction, Args, Command};

use crate::manual;

const ABOUT: &str =
    "A minimal raw-socket static file server, and the zero-overhead baseline target of a benchmark";

/// The options, as text: [`crate::cli`] says what it means.
#[derive(Args, Debug)]
pub(crate) struct Typed {
    /// Directory to serve [default: the current one]
    #[arg(value_name = "DIR", value_hint = ValueHint::DirPath)]
    pub(crate) dir: Option<PathBuf>,

    /// Answer every request with one precomputed response
    #[arg(long, env = "TARED_FIXED", value_parser = FalseyValueParser::new(), help_heading = "Serving")]
    pub(crate) fixed: bool,

    /// File served for a directory; repeatable [default: index.html]
    #[arg(long, env = "TARED_INDEX", value_name = "NAME", help_heading = "Serving")]
    pub(crate) index: Vec<String>,

    /// List directories that have no index, as HTML or JSON (?format=json)
    #[arg(long, env = "TARED_LIST", value_parser = FalseyValueParser::new(), help_heading = "Serving")]
    pub(crate) list: bool,

    /// Answer with DIR's index where there is nothing and HTML is wanted
    #[arg(long, env = "TARED_SPA", value_parser = FalseyValueParser::new(), help_heading = "Serving")]
    pub(crate) spa: bool,

    /// Serve NAME.zst, .br or .gz for NAME to those who accept it, if it is not older
    #[arg(long, env = "TARED_PRECOMPRESSED", value_parser = FalseyValueParser::new(), help_heading = "Serving")]
    pub(crate) precompressed: bool,

    /// Field added to every successful response; repeatable
    #[arg(long, env = "TARED_HEADER", value_name = "NAME: VALUE", help_heading = "Responses")]
    pub(crate) header: Vec<String>,

    /// Cache-Control of every successful response to GET or HEAD
    #[arg(long, env = "TARED_CACHE_CONTROL", value_name = "VALUE", help_heading = "Responses")]
    pub(crate) cache_control: Option<String>,

    /// Expires, and Cache-Control to match: after TIME, epoch (always expired) or max
    #[arg(long, env = "TARED_EXPIRES", value_name = "WHEN", help_heading = "Responses")]
    pub(crate) expires: Option<String>,

    /// Let the scripts of every site read responses (CORS)
    #[arg(long, env = "TARED_CORS", value_parser = FalseyValueParser::new(), help_heading = "Responses")]
    pub(crate) cors: bool,

    /// Field of the files that GLOB matches, by name or, with a slash in it, by
    /// path; repeatable, the last match wins
    ///
    /// [env: TARED_HEADER_FOR, one a line]
    #[arg(long, num_args = 2, value_names = ["GLOB", "NAME: VALUE"], help_heading = "Responses")]
    pub(crate) header_for: Vec<String>,

    /// Type of files with this extension; repeatable
    #[arg(long, env = "TARED_MIME", value_name = "EXT=TYPE", help_heading = "Responses")]
    pub(crate) mime: Vec<String>,

    /// Type of files of which the extension tells none [default:
    /// application/octet-stream]
    #[arg(long, env = "TARED_DEFAULT_TYPE", value_name = "TYPE", help_heading = "Responses")]
    pub(crate) default_type: Option<String>,

    /// File of DIR that is the body of these statuses, as 404=/404.html or
    /// 500,503=/50x.html; repeatable
    #[arg(long, env = "TARED_ERROR_PAGE", value_name = "CODES=/PATH", help_heading = "Responses")]
    pub(crate) error_page: Vec<String>,

    /// HOST:PORT, [IPV6]:PORT, :PORT for every address, IPv4 and IPv6, or
    /// unix:/PATH; port 0 is any free one; repeatable
    #[arg(
        long,
        env = "TARED_LISTEN",
        value_name = "ADDR",
        default_value = "127.0.0.1:8080",
        help_heading = "Listening"
    )]
    pub(crate) listen: Vec<String>,

    /// Permissions of unix sockets, as in chmod [default: what the umask leaves]
    #[arg(long, env = "TARED_UNIX_MODE", value_name = "MODE", help_heading = "Listening")]
    pub(crate) unix_mode: Option<String>,

    /// Open it in a browser
    #[arg(long, env = "TARED_OPEN", value_parser = FalseyValueParser::new(), help_heading = "Listening")]
    pub(crate) open: bool,

    /// Pending connections asked of the kernel
    #[arg(long, env = "TARED_BACKLOG", value_name = "N", default_value = "4096", help_heading = "Listening")]
    pub(crate) backlog: String,

    /// Connections open at a time [default: what descriptors allow]
    #[arg(long, env = "TARED_MAX_CONNECTIONS", value_name = "N", help_heading = "Limits")]
    pub(crate) max_connections: Option<String>,

    /// Requests of one connection, then it closes [default: any number]
    #[arg(long, env = "TARED_MAX_REQUESTS_PER_CONNECTION", value_name = "N", help_heading = "Limits")]
    pub(crate) max_requests_per_connection: Option<String>,

    /// Wait for the next request so long; 0 is for ever
    #[arg(
        long,
        env = "TARED_KEEP_ALIVE",
        value_name = "TIME",
        default_value = "65s",
        help_heading = "Limits"
    )]
    pub(crate) keep_alive: String,

    /// Wait for all of a head so long, from its first byte on; then 408
    #[arg(
        long,
        env = "TARED_HEADER_TIMEOUT",
        value_name = "TIME",
        default_value = "10s",
        help_heading = "Limits"
    )]
    pub(crate) header_timeout: String,

    /// Wait for the next piece of a request body so long; then 408
    #[arg(
        long,
        env = "TARED_BODY_TIMEOUT",
        value_name = "TIME",
        default_value = "60s",
        help_heading = "Limits"
    )]
    pub(crate) body_timeout: String,

    /// Wait for a client that takes nothing of its response so long
    #[arg(
        long,
        env = "TARED_WRITE_TIMEOUT",
        value_name = "TIME",
        default_value = "60s",
        help_heading = "Limits"
    )]
    pub(crate) write_timeout: String,

    /// Let responses in flight take so long at the end
    #[arg(long, env = "TARED_GRACE", value_name = "TIME", default_value = "10s", help_heading = "Limits")]
    pub(crate) grace: String,

    /// Files kept ready
    #[arg(
        long,
        env = "TARED_CACHE_ENTRIES",
        value_name = "N",
        default_value = "1000",
        help_heading = "Limits"
    )]
    pub(crate) cache_entries: String,

    /// Drop a kept file that nobody asked for in this time
    #[arg(
        long,
        env = "TARED_CACHE_IDLE",
        value_name = "TIME",
        default_value = "3600s",
        help_heading = "Limits"
    )]
    pub(crate) cache_idle: String,

    /// Look whether a kept file is still the same after this time; 0 is for
    /// each request
    #[arg(
        long,
        env = "TARED_CACHE_CHECK",
        value_name = "TIME",
        default_value = "1s",
        help_heading = "Limits"
    )]
    pub(crate) cache_check: String,

    /// Never look: files do not change while they are served
    #[arg(long, env = "TARED_FROZEN", value_parser = FalseyValueParser::new(), help_heading = "Limits")]
    pub(crate) frozen: bool,

    /// Write a line for each answer there; - is standard output
    #[arg(long, env = "TARED_LOG", value_name = "FILE|-", help_heading = "Access log")]
    pub(crate) log: Option<PathBuf>,

    /// Write it as common, combined or json [default: combined]
    #[arg(long, env = "TARED_LOG_FORMAT", value_name = "FORMAT", help_heading = "Access log")]
    pub(crate) log_format: Option<String>,

    /// Believe X-Forwarded-For of this address, network or unix (sockets);
    /// repeatable
    #[arg(long, env = "TARED_REAL_IP", value_name = "CIDR", help_heading = "Access log")]
    pub(crate) real_ip: Vec<String>,

    /// End with the report after this time, as 500ms, 10s or 5m
    #[arg(long, env = "TARED_DURATION", value_name = "TIME", help_heading = "Measuring")]
    pub(crate) duration: Option<String>,

    /// End with the report when N requests are answered
    #[arg(long, env = "TARED_MAX_REQUESTS", value_name = "N", help_heading = "Measuring")]
    pub(crate) max_requests: Option<String>,

    /// Report as text or json
    #[arg(
        long,
        env = "TARED_REPORT",
        value_name = "FORMAT",
        default_value = "text",
        help_heading = "Measuring"
    )]
    pub(crate) report: String,

    /// Write the report to this file, not to standard error
    #[arg(long, env = "TARED_REPORT_FILE", value_name = "PATH", help_heading = "Measuring")]
    pub(crate) report_file: Option<PathBuf>,

    /// No report on standard error at the end
    #[arg(long, short, env = "TARED_QUIET", value_parser = FalseyValueParser::new(), help_heading = "Measuring")]
    pub(crate) quiet: bool,

    /// Show requests/s, connections, MB/s, busy share and CPU per request once
    /// a second on standard error
    #[arg(long, env = "TARED_METER", value_parser = FalseyValueParser::new(), help_heading = "Measuring")]
    pub(crate) meter: bool,

    /// Response body; \n, \r, \t, \\ understood in TEXT [default: empty]
    #[arg(long, env = "TARED_BODY", value_name = "TEXT|@FILE", help_heading = "With --fixed")]
    pub(crate) body: Option<OsString>,

    /// A body of N zero bytes instead (k, m, g: times 1024)
    #[arg(long, env = "TARED_SIZE", value_name = "N[k|m|g]", help_heading = "With --fixed")]
    pub(crate) size: Option<String>,

    /// Response status [default: 200]
    #[arg(long, env = "TARED_STATUS", value_name = "CODE", help_heading = "With --fixed")]
    pub(crate) status: Option<String>,

    /// Content-Type [default: text/html without --body, else by FILE's
    /// extension or text/plain; charset=utf-8]
    #[arg(long = "type", env = "TARED_TYPE", value_name = "MIME", help_heading = "With --fixed")]
    pub(crate) content_type: Option<String>,

    /// Loops that share the address and nothing else; 0 is one per core
    #[arg(long, env = "TARED_WORKERS", value_name = "N", default_value = "1", help_heading = "Process")]
    pub(crate) workers: String,

    /// Keep worker k on the k-th core that is allowed
    #[arg(long, env = "TARED_PIN", value_parser = FalseyValueParser::new(), help_heading = "Process")]
    pub(crate) pin: bool,

    /// User to become once it listens, and before it serves
    #[arg(long, env = "TARED_USER", value_name = "NAME[:GROUP]", help_heading = "Process")]
    pub(crate) user: Option<String>,

    /// Let the kernel (Landlock) keep it to reading DIR: auto, where it can; on,
    /// or do not serve; off
    #[arg(
        long,
        env = "TARED_SANDBOX",
        value_name = "WHEN",
        default_value = "auto",
        help_heading = "Process"
    )]
    pub(crate) sandbox: String,

    /// Write the number of this process there while it serves
    #[arg(long, env = "TARED_PID_FILE", value_name = "PATH", help_heading = "Process")]
    pub(crate) pid_file: Option<PathBuf>,

    /// Write one JSON line to this file when connections are accepted
    #[arg(long, env = "TARED_READY_FILE", value_name = "PATH", help_heading = "Process")]
    pub(crate) ready_file: Option<PathBuf>,

    /// The same to this open descriptor, which is closed then
    #[arg(long, env = "TARED_READY_FD", value_name = "N", help_heading = "Process")]
    pub(crate) ready_fd: Option<String>,

    /// Print the manual page, or completions for a shell: man, bash, zsh or fish
    #[arg(long, value_name = "WHAT", help_heading = "Other")]
    pub(crate) generate: Option<String>,

    /// Write NAME.zst, .br and .gz beside the files of DIR and serve nothing: what is
    /// up to date stays, what would not be smaller is left out or, if it is outdated,
    /// removed; for --precompressed
    #[arg(long, value_name = "DIR", help_heading = "Other", value_hint = ValueHint::DirPath)]
    pub(crate) compress: Option<PathBuf>,

    /// Ask http://HOST:PORT/PATH or unix:/PATH once and serve nothing: status 0
    /// if the answer is 2xx or 3xx, else 1, within 3 s; for health checks
    #[arg(long, value_name = "URL", help_heading = "Other", value_hint = ValueHint::Url)]
    pub(crate) check: Option<String>,
}

/// The command, as it is generated from.
pub(crate) fn command() -> Command {
    // Ours, since clap's own would stand before all groups.
    let other = |name: &'static str, short: char, action: ArgAction, help: &'static str| {
        Arg::new(name).long(name).short(short).action(action).help(help).help_heading("Other")
    };
    let command = Command::new("tared").disable_help_flag(true).disable_version_flag(true);
    Typed::augment_args(command)
        .arg(other("help", 'h', ArgAction::Help, "Print help; -h is a summary"))
        .arg(other("version", 'V', ArgAction::Version, "Print version"))
        .version(env!("CARGO_PKG_VERSION"))
        // Behind the arguments, which bring along what is written above them.
        .about(ABOUT)
}

/// The command, as it is typed and helps: `-h` is a summary, `--help` says the variables, too.
pub(crate) fn helpful() -> Command {
    let command = command().override_usage(manual::usage()).term_width(80);
    let (behind_help, behind_summary) = (manual::behind_help(&command), manual::behind_summary(&command));
    // What clap would write behind the text, on lines of its own and in both of them.
    let with_values = |arg: &Arg, text: Option<&StyledStr>| {
        let values = arg.get_default_values().iter().filter(|_| arg.get_action().takes_values());
        let values: String = values.map(|value| format!(" [default: {}]", value.display())).collect();
        format!("{}{values}", text.cloned().unwrap_or_default())
    };
    command.after_help(behind_summary).after_long_help(behind_help).mut_args(|arg| {
        let summary = with_values(&arg, arg.get_help());
        let mut full = with_values(&arg, arg.get_long_help().or(arg.get_help()));
        if let Some(variable) = arg.get_env() {
            full += &format!(" [env: {}]", variable.display());
        }
        let takes_values = arg.get_action().takes_values();
        arg.help(summary).long_help(full).hide_default_value(takes_values).hide_env(true)
    })
}
