//! What is said besides the options, which `--help` and the manual page have in common, and what
//! `--generate` prints: all of it comes from the same definitions, so none can fall behind.

use std::fmt::Write;
use std::io;

use clap::Command;
use clap::builder::{PossibleValuesParser, StyledStr};
use clap_complete::Shell;
use clap_mangen::Man;
use clap_mangen::roff::{Roff, bold, roman};

use crate::failure::Failure;

/// A part of the manual: terms, and what each of them means.
struct Section {
    title: &'static str,
    entries: &'static [(&'static str, &'static str)],
}

const SECTIONS: [Section; 4] = [
    Section {
        title: "Signals",
        entries: &[
            (
                "SIGTERM, SIGINT, SIGQUIT, and SIGHUP of its terminal",
                "Finishes the responses in flight (see --grace), reports on standard error and ends; a second \
                 one ends at once.",
            ),
            ("SIGUSR1", "Reports, and goes on."),
            ("SIGHUP with --log FILE", "Opens FILE anew, and does not end it."),
        ],
    },
    Section {
        title: "Environment",
        entries: &[
            (
                "TARED_*",
                "Every option but those under Other also reads the variable that is shown with it; what is \
                 typed wins. A variable gives a repeatable option several values, one a line.",
            ),
            (
                "LISTEN_FDS, LISTEN_PID",
                "Sockets that systemd hands down are served besides what --listen names, or in place of its \
                 default.",
            ),
            (
                "NO_COLOR",
                "No colour in the output of --help. There is none either where it does not go to a terminal.",
            ),
        ],
    },
    Section {
        title: "Exit status",
        entries: &[
            ("0", "It ended in order."),
            ("1", "The system refused, it ended at once, or --check found no good answer."),
            ("2", "The command line is wrong."),
        ],
    },
    Section {
        title: "Examples",
        entries: &[
            ("tared public/", "Serves a directory on 127.0.0.1:8080."),
            ("tared --listen :8080 public/", "On every address, IPv4 and IPv6."),
            ("tared --listen unix:/run/tared.sock public/", "For a proxy on this machine."),
            ("tared --fixed", "An empty 200 for every request."),
            (r"tared --fixed --body 'Hi\n'", "A small body; --size 1m for a larger one."),
        ],
    },
];

/// Values of which there are few, for shells to offer.
const CHOICES: [(&str, &[&str]); 4] = [
    ("generate", &["man", "bash", "zsh", "fish"]),
    ("log_format", &["common", "combined", "json"]),
    ("report", &["text", "json"]),
    ("sandbox", &["auto", "on", "off"]),
];

/// Of the manual page, which must have one; by hand, so that what is generated depends on nothing else.
const DATE: &str = "2026-12-01";

const USAGES: [&str; 2] = ["[OPTIONS] [DIR]", "--fixed [OPTIONS]"];

const SEE_ALSO: &str = "ab(1), landlock(7), systemd.socket(5)";

/// The ways to call it, as help shows them.
pub(crate) fn usage() -> String {
    USAGES.map(|usage| format!("tared {usage}")).join("\n       ")
}

/// What stands behind the options in `--help`.
pub(crate) fn behind_help(command: &Command) -> StyledStr {
    text(command, &SECTIONS)
}

/// What stands behind the options in `-h`.
pub(crate) fn behind_summary(command: &Command) -> StyledStr {
    let examples: Vec<&Section> = SECTIONS.iter().filter(|section| section.title == "Examples").collect();
    let mut text = text(command, examples);
    let _ = write!(text, "\n\n--help says more: variables, signals, exit status.");
    text
}

/// `sections` as clap writes those of the options.
fn text<'s>(command: &Command, sections: impl IntoIterator<Item = &'s Section>) -> StyledStr {
    let styles = command.get_styles();
    let (header, literal) = (styles.get_header(), styles.get_literal());
    let section = |section: &Section| {
        let entry = |(term, meaning): &(&str, &str)| {
            let term = format!("\n  {literal}{term}{literal:#}");
            format!("{term}\n          {meaning}")
        };
        let entries: String = section.entries.iter().map(entry).collect();
        format!("{header}{}:{header:#}{entries}", section.title)
    };
    StyledStr::from(sections.into_iter().map(section).collect::<Vec<_>>().join("\n\n"))
}

/// What `--generate` prints.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Page {
    Man,
    Completions(Shell),
}

impl Page {
    /// What was typed behind `--generate`.
    ///
    /// # Errors
    /// A sentence naming the value and what to try.
    pub(crate) fn parse(text: &str) -> Result<Self, Failure> {
        match text {
            "man" => Ok(Self::Man),
            "bash" => Ok(Self::Completions(Shell::Bash)),
            "zsh" => Ok(Self::Completions(Shell::Zsh)),
            "fish" => Ok(Self::Completions(Shell::Fish)),
            _ => Err(Failure::usage(format!(
                "--generate '{text}': this is nothing that can be generated (try man, bash, zsh or fish)"
            ))),
        }
    }

    /// The text, made of `command`.
    pub(crate) fn text(self, command: Command) -> Vec<u8> {
        let mut text = Vec::new();
        match self {
            Self::Man => man(command, &mut text).expect("memory takes what is written"),
            Self::Completions(shell) => {
                let choose = |command: Command, &(option, values): &(&'static str, &'static [&str])| {
                    command.mut_arg(option, |arg| arg.value_parser(PossibleValuesParser::new(values)))
                };
                let mut command = CHOICES.iter().fold(command, choose);
                clap_complete::generate(shell, &mut command, "tared", &mut text);
            }
        }
        text
    }
}

fn man(command: Command, text: &mut Vec<u8>) -> io::Result<()> {
    let mut roff = Roff::new();
    let version = format!("tared {}", env!("CARGO_PKG_VERSION"));
    roff.control("TH", ["TARED", "1", DATE, &version, "User Commands"]);
    roff.to_writer(text)?;
    let man = Man::new(command);
    man.render_name_section(text)?;
    let mut roff = Roff::new();
    roff.control("SH", ["SYNOPSIS"]);
    for (index, usage) in USAGES.iter().enumerate() {
        if index > 0 {
            roff.control("br", []);
        }
        roff.text([bold("tared"), roman(format!(" {usage}"))]);
    }
    roff.to_writer(text)?;
    man.render_description_section(text)?;
    man.render_options_section(text)?;
    let mut roff = Roff::new();
    for section in &SECTIONS {
        roff.control("SH", [&*section.title.to_uppercase()]);
        for (term, meaning) in section.entries {
            roff.control("TP", []);
            roff.text([bold(*term)]);
            roff.text([roman(*meaning)]);
        }
    }
    roff.control("SH", ["SEE ALSO"]);
    roff.text([roman(SEE_ALSO)]);
    roff.to_writer(text)
}
