//! What was typed → what it means ([`Settings`], in which an absent value has a meaning).
//!
//! `typed` knows names, defaults and help; every value is interpreted here, so that every refusal is one
//! sentence naming the option, the value, the cause and what to try.

use std::ffi::{OsStr, OsString};
use std::os::fd::RawFd;
use std::os::unix::ffi::{OsStrExt, OsStringExt};
use std::path::{Path, PathBuf};
use std::str::FromStr;
use std::time::Duration;

use clap::error::ErrorKind;
use clap::parser::ValueSource;
use clap::{ArgMatches, FromArgMatches};

use crate::address::Address;
use crate::check::Check;
use crate::compress::Compression;
use crate::deadlines::Patience;
use crate::entry;
use crate::failure::Failure;
use crate::files::{Keeping, Rules};
use crate::head::{Field, Status};
use crate::log::Logging;
use crate::log_file::Place;
use crate::manual;
use crate::mime::Types;
use crate::pages::Page;
use crate::policy::{Expires, Glob, Policy};
use crate::privilege::Named;
use crate::proxies::Proxies;
use crate::sandbox::Sandbox;
use crate::typed::{self, Typed};
use crate::value;

/// What tared is asked to do.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Settings {
    /// Where to listen; never none.
    pub addresses: Vec<Address>,
    /// Whether nobody asked for them, so that sockets which are handed down come in their place.
    pub addresses_are_default: bool,
    /// Permissions of unix sockets; without one, what the umask leaves.
    pub unix_mode: Option<u32>,
    /// Whether a browser is sent there.
    pub open: bool,
    /// Pending connections asked of the kernel.
    pub backlog: u32,
    /// Loops; 0 is one per core.
    pub workers: usize,
    /// Whether each worker stays on a core of its own.
    pub pin: bool,
    /// Whom to become before serving.
    pub user: Option<Named>,
    /// Whether the kernel keeps it to reading the site.
    pub sandbox: Sandbox,
    /// What is said with which response.
    pub policy: Policy,
    /// What to serve.
    pub serve: Serve,
    /// Connections open at a time, if it is not for the descriptors to say.
    pub max_connections: Option<usize>,
    /// Requests of one connection that are answered, if not any number.
    pub requests_each: Option<u64>,
    /// How long clients are waited for.
    pub patience: Patience,
    /// How long responses in flight may take at the end.
    pub grace: Duration,
    /// How files are kept.
    pub keeping: Keeping,
    /// How long to serve, if not for ever.
    pub duration: Option<Duration>,
    /// How many requests to answer, if not any number.
    pub max_requests: Option<u64>,
    /// How a report is written.
    pub report: Format,
    /// Where a report goes, if not to standard error.
    pub report_file: Option<PathBuf>,
    /// Whether there is none at the end, unless it goes to a file.
    pub quiet: bool,
    /// Whether every second is shown.
    pub meter: bool,
    /// Where and how answers are written down, if anywhere.
    pub log: Option<Logging>,
    /// A file that holds the number of this process while it serves.
    pub pid_file: Option<PathBuf>,
    /// A file that says when connections are accepted.
    pub ready_file: Option<PathBuf>,
    /// A descriptor that is told when connections are accepted.
    pub ready_fd: Option<RawFd>,
}

/// How a report is written.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Format {
    /// For people.
    Text,
    /// One JSON object.
    Json,
}

/// What is served.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Serve {
    /// A directory.
    Directory(Directory),
    /// One response to everything.
    Fixed {
        /// Its status.
        status: Status,
        /// Its Content-Type, if it has one.
        content_type: Option<String>,
        /// Its body.
        body: BodySource,
    },
}

/// A directory, and how it is served.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Directory {
    /// Its path.
    pub path: PathBuf,
    /// What makes a response of a file.
    pub rules: Rules,
    /// Its own pages for refusals.
    pub pages: Vec<Page>,
    /// Whether directories without an index are listed.
    pub is_listed: bool,
}

/// Where the body of a fixed response comes from.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum BodySource {
    /// The command line.
    Text(Vec<u8>),
    /// A file.
    File(PathBuf),
    /// Zero bytes.
    Zeros {
        /// How many.
        len: u64,
        /// The option's value.
        typed: String,
    },
}

/// Workers beyond any use: one more is a typing error. Arbitrary.
const WORKERS_MAX: usize = 1024;

/// How long a client's end is waited for after its last response.
const LINGER: Duration = Duration::from_secs(5);

/// A time beyond any use. Arbitrary; deadlines are far from their type's bounds.
const TIME_MAX: Duration = Duration::from_secs(100 * 366 * 24 * 3600);

/// Fields that tared writes itself, from the connection, the body and the clock.
const COMPUTED: [&str; 4] = ["Connection", "Content-Length", "Date", "Transfer-Encoding"];

/// Fields that tared writes itself from the file it serves.
const COMPUTED_OF_FILES: [&str; 4] = ["Accept-Ranges", "Content-Range", "ETag", "Last-Modified"];

/// Interprets a command line, its program name included, and the environment.
///
/// # Errors
/// A sentence naming the option, the value, the cause and what to try. Help and version count as
/// errors too, of status 0, whose text is for standard output: see [`Stop`].
pub fn settings(args: impl IntoIterator<Item = OsString>) -> Result<Settings, Stop> {
    let args: Vec<OsString> = args.into_iter().collect();
    let matches = typed::helpful().try_get_matches_from(&args).map_err(|error| match error.kind() {
        ErrorKind::DisplayHelp | ErrorKind::DisplayVersion => {
            Stop::Text(error.render().ansi().to_string().into_bytes())
        }
        ErrorKind::InvalidUtf8 => Stop::Failure(no_text(&args)),
        _ => Stop::Failure(Failure::usage(first_sentence(&error.to_string()))),
    })?;
    let typed = Typed::from_arg_matches(&matches).map_err(|error| Failure::usage(error.to_string()))?;
    if let Some(text) = &typed.generate {
        return Err(Stop::Text(manual::Page::parse(text)?.text(typed::command())));
    }
    if let Some(dir) = typed.compress {
        alone(&matches, &["compress", "quiet"], &format!("--compress '{}'", dir.display()))?;
        return Err(Stop::Compress(Compression { dir, is_quiet: typed.quiet }));
    }
    if let Some(url) = &typed.check {
        alone(&matches, &["check", "quiet"], &format!("--check '{url}'"))?;
        return Err(Stop::Check(Check::parse(url)?));
    }
    Ok(interpret(typed, &matches)?)
}

/// Refuses what is typed beside `errand`, which serves nothing, but for `expected`. A variable may be meant for
/// somebody else.
fn alone(matches: &ArgMatches, expected: &[&str], errand: &str) -> Result<(), Failure> {
    let command = typed::command();
    let others = command.get_arguments().map(|arg| arg.get_id().as_str()).filter(|id| !expected.contains(id));
    let is_typed = |id: &&str| {
        matches.try_contains_id(id).is_ok() && matches.value_source(id) == Some(ValueSource::CommandLine)
    };
    let Some(other) = { others }.find(is_typed) else { return Ok(()) };
    let name = if other == "dir" { "DIR".to_owned() } else { format!("--{}", other.replace('_', "-")) };
    Err(Failure::usage(format!(
        "{name} does not go with {errand}, which serves nothing (leave out one of the two)"
    )))
}

/// Why there is nothing to serve.
#[derive(Debug)]
pub enum Stop {
    /// Somebody asked for this text; its styles are for a terminal.
    Text(Vec<u8>),
    /// Something is to be compressed.
    Compress(Compression),
    /// Somebody asks how another server does.
    Check(Check),
    /// Something is wrong.
    Failure(Failure),
}

impl From<Failure> for Stop {
    fn from(failure: Failure) -> Self {
        Stop::Failure(failure)
    }
}

fn interpret(typed: Typed, matches: &ArgMatches) -> Result<Settings, Failure> {
    let index_names = values(typed.index, "index", matches);
    let mime = values(typed.mime, "mime", matches);
    let error_pages = values(typed.error_page, "error_page", matches);
    let header_for = pairs(typed.header_for)?;
    let policy = Policy {
        is_shared: typed.cors,
        expires: typed.expires.as_deref().map(expires).transpose()?,
        cache_control: typed
            .cache_control
            .map(|value| cache_control(value, typed.expires.is_some()))
            .transpose()?,
        fields: values(typed.header, "header", matches)
            .iter()
            .map(|text| field("--header", text, !typed.fixed))
            .collect::<Result<_, _>>()?,
        by_path: header_for
            .iter()
            .map(|(glob, text)| Ok((Glob::parse("--header-for", glob)?, field("--header-for", text, true)?)))
            .collect::<Result<_, Failure>>()?,
    };
    let mut own = policy.fields.iter().chain(policy.by_path.iter().map(|(_, field)| field));
    if typed.cors && own.any(|field| field.name.eq_ignore_ascii_case("Access-Control-Allow-Origin")) {
        return Err(Failure::usage(
            "--cors lets every site read every response, and a field of yours says otherwise for some (leave out one of the two)",
        ));
    }
    let serve = if typed.fixed {
        let of_directory = [
            ("DIR", typed.dir.map(|dir| dir.display().to_string())),
            ("--index", joined(&index_names)),
            ("--mime", joined(&mime)),
            ("--default-type", typed.default_type),
            ("--error-page", joined(&error_pages)),
            ("--precompressed", typed.precompressed.then(String::new)),
            ("--list", typed.list.then(String::new)),
            ("--spa", typed.spa.then(String::new)),
            ("--header-for", header_for.first().map(|(glob, _)| glob.clone())),
        ];
        if let Some((option, Some(value))) = of_directory.into_iter().find(|(_, value)| value.is_some()) {
            let value = if value.is_empty() { value } else { format!(" '{value}'") };
            return Err(Failure::usage(format!(
                "{option}{value} does not go with --fixed, which answers without files (leave out one of the two)"
            )));
        }
        fixed(typed.status.as_deref(), typed.content_type, typed.body, typed.size.as_deref())?
    } else {
        let of_fixed = [
            ("--body", typed.body.as_ref().map(|body| body.to_string_lossy().into_owned())),
            ("--size", typed.size),
            ("--status", typed.status),
            ("--type", typed.content_type),
        ];
        if let Some((option, Some(value))) = of_fixed.into_iter().find(|(_, value)| value.is_some()) {
            return Err(Failure::usage(format!(
                "{option} '{value}' does not go with a directory: it describes the one fixed response (add --fixed)"
            )));
        }
        let index_names = if index_names.is_empty() { vec!["index.html".to_owned()] } else { index_names };
        for name in &index_names {
            check_index_name(name)?;
        }
        let pages: Vec<Page> = error_pages.iter().map(|text| Page::parse(text)).collect::<Result<_, _>>()?;
        if let Some(status) = Page::repeated(&pages) {
            return Err(Failure::usage(format!(
                "--error-page '{}': there are two for {status} (leave out one of the two)",
                error_pages.join(" ")
            )));
        }
        let rules = Rules {
            index_names,
            types: Types::parse(&mime, typed.default_type)?,
            policy: policy.clone(),
            is_precompressed: typed.precompressed,
            is_spa: typed.spa,
        };
        let path = typed.dir.unwrap_or_else(|| PathBuf::from("."));
        Serve::Directory(Directory { path, rules, pages, is_listed: typed.list })
    };
    let addresses = addresses(&values(typed.listen, "listen", matches))?;
    let unix_mode = typed.unix_mode.as_deref().map(mode).transpose()?;
    if let Some(mode) = typed.unix_mode
        && addresses.iter().all(|address| address.path().is_none())
    {
        return Err(Failure::usage(format!(
            "--unix-mode '{mode}' does not go without a unix socket (add --listen unix:/PATH)"
        )));
    }
    if let (true, Some(user)) = (typed.open, &typed.user) {
        return Err(Failure::usage(format!(
            "--user '{user}' does not go with --open: the browser would run as root (leave out one of the two)"
        )));
    }
    Ok(Settings {
        addresses,
        addresses_are_default: matches.value_source("listen") == Some(ValueSource::DefaultValue),
        unix_mode,
        open: typed.open,
        backlog: backlog(&typed.backlog)?,
        workers: workers(&typed.workers)?,
        pin: typed.pin,
        sandbox: Sandbox::parse(&typed.sandbox)?,
        user: typed.user.as_deref().map(Named::parse).transpose()?,
        policy,
        serve,
        max_connections: typed
            .max_connections
            .as_deref()
            .map(|text| count("--max-connections", text))
            .transpose()?,
        requests_each: requests_each(typed.max_requests_per_connection.as_deref())?,
        patience: Patience {
            idle: Some(time("--keep-alive", &typed.keep_alive, "65s")?).filter(|time| !time.is_zero()),
            head: some_time("--header-timeout", &typed.header_timeout, "10s")?,
            body: some_time("--body-timeout", &typed.body_timeout, "60s")?,
            write: some_time("--write-timeout", &typed.write_timeout, "60s")?,
            linger: LINGER,
        },
        grace: time("--grace", &typed.grace, "10s")?,
        keeping: Keeping {
            entries_max: count("--cache-entries", &typed.cache_entries)?,
            idle: some_time("--cache-idle", &typed.cache_idle, "3600s")?,
            check: keeping_check(typed.frozen, &typed.cache_check)?,
        },
        duration: typed.duration.as_deref().map(|text| some_time("--duration", text, "10s")).transpose()?,
        max_requests: typed.max_requests.as_deref().map(max_requests).transpose()?,
        report: format(&typed.report)?,
        report_file: typed.report_file,
        quiet: typed.quiet,
        meter: typed.meter,
        log: logging(typed.log, typed.log_format.as_deref(), &values(typed.real_ip, "real_ip", matches))?,
        pid_file: typed.pid_file,
        ready_file: typed.ready_file,
        ready_fd: typed.ready_fd.as_deref().map(ready_fd).transpose()?,
    })
}

/// The values of a repeatable option; one from the environment holds one a line.
fn values(values: Vec<String>, id: &str, matches: &ArgMatches) -> Vec<String> {
    if matches.value_source(id) == Some(ValueSource::EnvVariable) {
        return values.iter().flat_map(|value| value.lines()).map(str::to_owned).collect();
    }
    values
}

fn addresses(texts: &[String]) -> Result<Vec<Address>, Failure> {
    if texts.is_empty() {
        return Err(Failure::usage("--listen '': this is no address (try --listen 127.0.0.1:8080)"));
    }
    let mut addresses = Vec::with_capacity(texts.len());
    for text in texts {
        let address = Address::parse(text)?;
        if addresses.contains(&address) && !address.is_any_free() {
            return Err(Failure::usage(format!(
                "--listen '{text}': it is there twice (leave out one of the two)"
            )));
        }
        addresses.push(address);
    }
    Ok(addresses)
}

fn mode(text: &str) -> Result<u32, Failure> {
    match u32::from_str_radix(text, 8) {
        Ok(mode @ 0..=0o777) if text.bytes().all(|byte| byte.is_ascii_digit()) => Ok(mode),
        _ => Err(Failure::usage(format!(
            "--unix-mode '{text}': this is no octal mode from 0 to 0777 (try --unix-mode 0660)"
        ))),
    }
}

/// `parse` takes a plus sign, which no number here has.
fn number<N: FromStr>(text: &str) -> Option<N> {
    text.bytes().all(|byte| byte.is_ascii_digit()).then(|| text.parse().ok()).flatten()
}

fn backlog(text: &str) -> Result<u32, Failure> {
    match number(text) {
        Some(backlog @ 1..=0x7fff_ffff) => Ok(backlog),
        _ => Err(Failure::usage(format!(
            "--backlog '{text}': this is no number from 1 to 2147483647 (try --backlog 4096)"
        ))),
    }
}

fn workers(text: &str) -> Result<usize, Failure> {
    match number(text) {
        Some(workers @ 0..=WORKERS_MAX) => Ok(workers),
        _ => Err(Failure::usage(format!(
            "--workers '{text}': this is no number from 0 to {WORKERS_MAX} (try --workers 0 for one per core)"
        ))),
    }
}

/// A time; none at all is written 0.
fn time(option: &str, text: &str, example: &str) -> Result<Duration, Failure> {
    let refuse = |cause: &str| Failure::usage(format!("{option} '{text}': {cause} (try {option} {example})"));
    if text == "0" {
        return Ok(Duration::ZERO);
    }
    match humantime::parse_duration(text) {
        Ok(time) if time <= TIME_MAX => Ok(time),
        Ok(_) => Err(refuse("this is longer than a hundred years")),
        Err(_) => Err(refuse("this is no number with ms, s, m or h behind it")),
    }
}

/// A time that is longer than none.
fn some_time(option: &str, text: &str, example: &str) -> Result<Duration, Failure> {
    let time = time(option, text, example)?;
    let refuse =
        || Failure::usage(format!("{option} '{text}': this is no time at all (try {option} {example})"));
    if time.is_zero() { Err(refuse()) } else { Ok(time) }
}

/// A number above 0.
fn count(option: &str, text: &str) -> Result<usize, Failure> {
    match number(text) {
        Some(count @ 1..) => Ok(count),
        _ => Err(Failure::usage(format!("{option} '{text}': this is no number above 0 (try {option} 1000)"))),
    }
}

fn requests_each(text: Option<&str>) -> Result<Option<u64>, Failure> {
    let requests = text.map(|text| count("--max-requests-per-connection", text)).transpose()?;
    Ok(requests.map(|requests| requests as u64))
}

fn keeping_check(is_frozen: bool, text: &str) -> Result<Option<Duration>, Failure> {
    let check = time("--cache-check", text, "1s")?;
    Ok((!is_frozen).then_some(check))
}

fn max_requests(text: &str) -> Result<u64, Failure> {
    match number(text) {
        Some(requests @ 1..) => Ok(requests),
        _ => Err(Failure::usage(format!(
            "--max-requests '{text}': this is no number above 0 (try --max-requests 50000)"
        ))),
    }
}

fn format(text: &str) -> Result<Format, Failure> {
    match text {
        "text" => Ok(Format::Text),
        "json" => Ok(Format::Json),
        _ => Err(Failure::usage(format!("--report '{text}': this is no format (try text or json)"))),
    }
}

fn logging(
    place: Option<PathBuf>,
    format: Option<&str>,
    proxies: &[String],
) -> Result<Option<Logging>, Failure> {
    let Some(place) = place else {
        let of_log = [("--log-format", format), ("--real-ip", proxies.first().map(String::as_str))];
        return match of_log.into_iter().find_map(|(option, value)| Some((option, value?))) {
            None => Ok(None),
            Some((option, value)) => Err(Failure::usage(format!(
                "{option} '{value}' does not go without an access log (add --log FILE)"
            ))),
        };
    };
    let place = match place.as_os_str().as_bytes() {
        b"-" => Place::StandardOutput,
        _ => Place::File(place),
    };
    let format = format.map_or(Ok(entry::Format::Combined), entry::Format::parse)?;
    Ok(Some(Logging { place, format, proxies: Proxies::parse(proxies)? }))
}

fn ready_fd(text: &str) -> Result<RawFd, Failure> {
    match number(text) {
        Some(fd @ 1..) => Ok(fd),
        _ => Err(Failure::usage(format!(
            "--ready-fd '{text}': this is no number of a descriptor (try --ready-fd 3)"
        ))),
    }
}

fn check_index_name(name: &str) -> Result<(), Failure> {
    if name.starts_with('.') {
        return Err(Failure::usage(format!(
            "--index '{name}': names that begin with a dot are not served (try --index index.html)"
        )));
    }
    if name.is_empty() || name.contains(['/', '\0']) {
        return Err(Failure::usage(format!(
            "--index '{name}': this is no name of a file in a directory (try --index index.html)"
        )));
    }
    Ok(())
}

/// The globs and fields of `--header-for`, which takes two values at a time; its variable has a pair a
/// line.
fn pairs(typed: Vec<String>) -> Result<Vec<(String, String)>, Failure> {
    if !typed.is_empty() {
        return Ok(typed.chunks_exact(2).map(|pair| (pair[0].clone(), pair[1].clone())).collect());
    }
    let variable = std::env::var_os("TARED_HEADER_FOR").unwrap_or_default();
    let variable = variable.to_str().ok_or_else(|| {
        Failure::usage(format!(
            "TARED_HEADER_FOR '{}': this is no UTF-8 text (write it in UTF-8)",
            variable.as_bytes().escape_ascii()
        ))
    })?;
    let pair = |line: &str| match line.split_once(' ') {
        Some((glob, field)) => Ok((glob.to_owned(), field.trim_start().to_owned())),
        None => Err(Failure::usage(format!(
            "--header-for '{line}': there is no field behind the glob (try '*.css Cache-Control: no-store')"
        ))),
    };
    variable.lines().map(pair).collect()
}

/// The values of a repeatable option, if there are any.
fn joined(values: &[String]) -> Option<String> {
    (!values.is_empty()).then(|| values.join("\n"))
}

fn expires(text: &str) -> Result<Expires, Failure> {
    match text {
        "epoch" => Ok(Expires::Epoch),
        "max" => Ok(Expires::Max),
        text => time("--expires", text, "30d").map(Expires::After),
    }
}

/// A Cache-Control value beside which there may be `expires`.
fn cache_control(text: String, expires: bool) -> Result<String, Failure> {
    let refuse = |cause: &str| {
        Failure::usage(format!("--cache-control '{text}': {cause} (try --cache-control no-cache)"))
    };
    if !value::is_cache_control(&text) {
        return Err(refuse("these are no directives"));
    }
    let is_age = |directive: &str| directive.to_ascii_lowercase().starts_with("max-age");
    if expires && value::elements(&text, ',').any(is_age) {
        return Err(refuse("--expires says the age, too"));
    }
    Ok(text.trim().to_owned())
}

/// `NAME: VALUE` (RFC 9110 §5.1, §5.5).
fn field(option: &str, text: &str, is_directory: bool) -> Result<Field, Failure> {
    let refuse =
        |cause: &str| Failure::usage(format!("{option} '{text}': {cause} (try 'Cache-Control: no-store')"));
    let (name, value) = text.split_once(':').ok_or_else(|| refuse("there is no colon"))?;
    if !value::is_token(name) {
        return Err(refuse("what stands before the colon is no field name"));
    }
    if text.contains(['\r', '\n']) {
        return Err(refuse("a field holds no line break"));
    }
    let value = value.trim_matches([' ', '\t']);
    if name.eq_ignore_ascii_case("Content-Type") && !value::is_media_type(value) {
        return Err(refuse("this is no media type"));
    }
    if value.contains(|c: char| c.is_ascii_control() && c != '\t') {
        return Err(refuse("a field holds no control characters"));
    }
    let names = |list: &[&str]| list.iter().any(|own| own.eq_ignore_ascii_case(name));
    if names(&COMPUTED) || (is_directory && names(&COMPUTED_OF_FILES)) {
        return Err(refuse("tared computes this field itself"));
    }
    Ok(Field::new(name, value))
}

fn fixed(
    status: Option<&str>,
    content_type: Option<String>,
    body: Option<OsString>,
    size: Option<&str>,
) -> Result<Serve, Failure> {
    let status = self::status(status.unwrap_or("200"))?;
    let default_type = match &body {
        None => "text/html".to_owned(),
        Some(body) => match body.as_encoded_bytes() {
            [b'@', file @ ..] if Path::new(OsStr::from_bytes(file)).extension().is_some() => {
                Types::default().of(file)
            }
            _ => "text/plain; charset=utf-8".to_owned(),
        },
    };
    let body = match (body, size) {
        (Some(body), Some(size)) => {
            return Err(Failure::usage(format!(
                "--size '{size}' does not go with --body '{}': each of them is the whole body (leave out one)",
                body.display()
            )));
        }
        (None, None) => BodySource::Text(Vec::new()),
        (None, Some(size)) => BodySource::Zeros { len: self::size(size)?, typed: size.to_owned() },
        (Some(body), None) => body_source(body)?,
    };
    let is_empty = match &body {
        BodySource::Text(text) => text.is_empty(),
        BodySource::Zeros { len, .. } => *len == 0,
        BodySource::File(_) => false,
    };
    // RFC 9110 §15.3.6: 205 has none either, though it has a length.
    if (status.is_bodiless() || status.0 == 205) && !is_empty {
        return Err(Failure::usage(format!(
            "--status '{}': a response with this status has no body (leave out --body and --size)",
            status.0
        )));
    }
    if let Some(text) = &content_type
        && !value::is_media_type(text)
    {
        return Err(Failure::usage(format!(
            "--type '{}': this is no media type (try --type text/plain)",
            text
        )));
    }
    let content_type = content_type.or((!status.is_bodiless()).then_some(default_type));
    Ok(Serve::Fixed { status, content_type, body })
}

fn status(text: &str) -> Result<Status, Failure> {
    match text.parse() {
        Ok(code @ 200..=599) if text.len() == 3 => Ok(Status(code)),
        _ => Err(Failure::usage(format!(
            "--status '{text}': this is no final HTTP status from 200 to 599 (try --status 200)"
        ))),
    }
}

fn size(text: &str) -> Result<u64, Failure> {
    let (digits, shift) = match text.char_indices().last() {
        Some((at, 'k' | 'K')) => (&text[..at], 10),
        Some((at, 'm' | 'M')) => (&text[..at], 20),
        Some((at, 'g' | 'G')) => (&text[..at], 30),
        _ => (text, 0),
    };
    let is_number = !digits.is_empty() && digits.bytes().all(|byte| byte.is_ascii_digit());
    let bytes = digits.parse::<u64>().ok().and_then(|n| n.checked_mul(1 << shift));
    bytes.filter(|_| is_number).ok_or_else(|| {
        Failure::usage(format!(
            "--size '{text}': this is no number of bytes with k, m or g behind it (try --size 64k)"
        ))
    })
}

fn body_source(body: OsString) -> Result<BodySource, Failure> {
    if let [b'@', path @ ..] = body.as_bytes() {
        return Ok(BodySource::File(PathBuf::from(OsString::from_vec(path.to_vec()))));
    }
    let mut text = Vec::with_capacity(body.len());
    let mut bytes = body.as_bytes().iter();
    while let Some(&byte) = bytes.next() {
        text.push(match byte {
            b'\\' => match bytes.next() {
                Some(b'n') => b'\n',
                Some(b'r') => b'\r',
                Some(b't') => b'\t',
                Some(b'\\') => b'\\',
                _ => {
                    return Err(Failure::usage(format!(
                        "--body '{}': a backslash stands before n, r, t or a backslash (write \\\\ for one)",
                        body.display()
                    )));
                }
            },
            byte => byte,
        });
    }
    Ok(BodySource::Text(text))
}

/// Which value it is that clap found not to be UTF-8, since clap does not tell.
fn no_text(args: &[OsString]) -> Failure {
    let is_text = |value: &OsStr| value.to_str().is_some();
    let from_environment = std::env::vars_os()
        .filter(|(name, _)| name.as_bytes().starts_with(b"TARED_") && name != "TARED_BODY")
        .find(|(_, value)| !is_text(value));
    let typed = args.iter().position(|arg| !is_text(arg));
    let (option, value) = match (typed, from_environment) {
        (Some(at), _) => {
            let arg = args[at].as_bytes();
            match arg.iter().position(|&byte| byte == b'=') {
                Some(equals) => (arg[..equals].to_vec(), arg[equals + 1..].to_vec()),
                None => (args[at.saturating_sub(1)].as_bytes().to_vec(), arg.to_vec()),
            }
        }
        (None, Some((name, value))) => (name.into_vec(), value.into_vec()),
        (None, None) => Default::default(),
    };
    let (option, value) = (String::from_utf8_lossy(&option), value.escape_ascii());
    Failure::usage(format!("{option} '{value}': this is no UTF-8 text (write it in UTF-8)"))
}

/// The gist of what clap says, on one line.
fn first_sentence(text: &str) -> String {
    let gist = text.split("\n\n").next().unwrap_or(text);
    let words: Vec<&str> = gist.trim_start_matches("error: ").split_whitespace().collect();
    format!("{} (try tared --help)", words.join(" "))
}
