//! What `--generate` prints, and whether that is in colour: the manual page, completions, help.

use std::fs;
use std::process::{Command, Stdio};

use crate::command_line::check_usage;
use crate::server::{command, run, share_environment, skip, temporary};

fn generated(what: &str) -> String {
    let output = run(command().args(["--generate", what]));
    assert_eq!((output.status.code(), &*String::from_utf8_lossy(&output.stderr)), (Some(0), ""), "{what}");
    String::from_utf8(output.stdout).expect("text")
}

/// Whether `program` can be started here.
pub(crate) fn is_there(program: &str) -> bool {
    let status =
        Command::new("sh").args(["-c", &format!("command -v {program}")]).stdout(Stdio::null()).status();
    status.is_ok_and(|status| status.success())
}

/// The long options that `--help` shows.
fn options() -> Vec<String> {
    let help = String::from_utf8(run(command().arg("--help")).stdout).expect("text");
    let behind_dashes = |line: &str| {
        let line = line.strip_prefix("      --").or_else(|| line.split_once(", --").map(|(_, rest)| rest))?;
        Some(line.split([' ', '[']).next()?.to_owned())
    };
    let options: Vec<String> = help.lines().filter_map(behind_dashes).collect();
    assert!(options.len() > 30 && options.contains(&"listen".to_owned()), "{options:?}");
    options
}

/// What could not be written is not said to be there.
#[test]
fn what_cannot_be_written_is_refused() {
    for args in [&["--generate", "man"][..], &["--generate", "bash"], &["--help"]] {
        let mut command = command();
        let full = std::fs::OpenOptions::new().write(true).open("/dev/full").expect("it is there");
        let status = command.args(args).stdout(full).stderr(Stdio::piped()).output().expect("it runs");
        let said = String::from_utf8(status.stderr).expect("text");
        assert_eq!(status.status.code(), Some(1), "{args:?}");
        assert!(said.contains("no space left on device") && said.lines().count() == 1, "{said}");
    }
}

#[test]
fn what_cannot_be_generated_is_refused() {
    for what in ["", "Man", "powershell"] {
        check_usage(&[&format!("--generate={what}")], &["--generate", &format!("'{what}'"), "(try man"]);
    }
}

#[test]
fn the_manual_page_has_every_option_and_section() {
    let page = generated("man").replace("\\-", "-");
    for option in options() {
        assert!(page.contains(&format!("--{option}")), "--{option} is not in {page}");
    }
    let mut from = 0;
    for section in
        ["NAME", "SYNOPSIS", "DESCRIPTION", "SIGNALS", "ENVIRONMENT", "EXIT STATUS", "EXAMPLES", "SEE ALSO"]
    {
        let at = [format!("\n.SH {section}\n"), format!("\n.SH \"{section}\"\n")];
        let at = at.iter().find_map(|heading| page[from..].find(heading));
        from += at.unwrap_or_else(|| panic!("{section} is not in its place in {page}"));
    }
    for part in ["SIGTERM", "SIGUSR1", "TARED_LISTEN", "NO_COLOR", "tared --fixed"] {
        assert!(page.contains(part), "{part} is not in {page}");
    }
}

/// Whatever formats it has nothing to say of it.
#[test]
fn the_manual_page_is_clean() {
    let dir = temporary();
    let page = dir.path().join("tared.1");
    fs::write(&page, generated("man")).expect("it is ours");
    for formatter in [&["groff", "-ww", "-man", "-z"][..], &["mandoc", "-T", "lint", "-W", "warning"]] {
        if !is_there(formatter[0]) {
            skip("the_manual_page_is_clean", &format!("{} is not installed", formatter[0]));
            continue;
        }
        let output = run(Command::new(formatter[0]).args(&formatter[1..]).arg(&page));
        let said = [output.stdout, output.stderr].concat();
        assert_eq!(String::from_utf8_lossy(&said), "", "{formatter:?}");
        assert!(output.status.success(), "{formatter:?}");
    }
}

/// What `shell` prints for `script`, which stands behind the completions for it.
fn completed(test: &str, shell: &[&str], script: &str) -> Option<String> {
    if !is_there(shell[0]) {
        skip(test, &format!("{} is not installed", shell[0]));
        return None;
    }
    let dir = temporary();
    let completions = dir.path().join("completions");
    fs::write(&completions, generated(shell[0])).expect("it is ours");
    let checked = run(Command::new(shell[0]).arg("-n").arg(&completions));
    assert!(checked.status.success() && checked.stderr.is_empty(), "{checked:?}");
    let script = script.replace("COMPLETIONS", completions.to_str().expect("text"));
    let output = run(Command::new(shell[0]).args(&shell[1..]).args(["-c", &script]).current_dir(&dir));
    assert_eq!(String::from_utf8_lossy(&output.stderr), "");
    Some(String::from_utf8(output.stdout).expect("text"))
}

#[test]
fn bash_completes() {
    let script = r#"
        source COMPLETIONS
        of() {
            COMP_WORDS=(tared "$@") COMP_CWORD=$#
            _tared tared "${COMP_WORDS[COMP_CWORD]}" "${COMP_WORDS[COMP_CWORD - 1]}"
            echo "${COMPREPLY[@]}"
        }
        complete -p tared
        of --ready
        of --sandbox ""
        of --report j
        of -"#;
    let Some(said) = completed("bash_completes", &["bash", "--norc"], script) else { return };
    let lines: Vec<&str> = said.lines().collect();
    let [how, ready, sandbox, json, all] = lines[..] else { panic!("{said}") };
    assert!(how.contains("-F _tared") && how.contains("default"), "names of files come from bash: {how}");
    assert_eq!([ready, sandbox, json], ["--ready-file --ready-fd", "auto on off", "json"]);
    for option in options() {
        assert!(all.split(' ').any(|word| word == format!("--{option}")), "--{option} is not in {all}");
    }
}

/// Without a terminal, where zsh does not complete: what is handed to its `_arguments`.
#[test]
fn zsh_is_told_of_every_option() {
    let script = "
        _arguments() { print -l -- \"$@\"; }
        compdef() { print compdef \"$@\"; }
        source COMPLETIONS
        _tared";
    let Some(said) = completed("zsh_is_told_of_every_option", &["zsh", "-f"], script) else { return };
    assert!(said.contains("compdef _tared tared\n"), "{said}");
    for option in options() {
        assert!(said.contains(&format!("--{option}")), "--{option} is not in {said}");
    }
    assert!(said.contains("(auto on off)"), "{said}");
    assert!(said.contains("_files -/"), "DIR is a directory: {said}");
}

#[test]
fn fish_completes() {
    let script = "
        source COMPLETIONS
        complete -C 'tared --ready'
        complete -C 'tared --sandbox '
        complete -C 'tared --'";
    let Some(said) = completed("fish_completes", &["fish", "--no-config"], script) else { return };
    let words: Vec<&str> = said.lines().filter_map(|line| line.split('\t').next()).collect();
    assert_eq!(words[..5], ["--ready-fd", "--ready-file", "auto", "off", "on"], "{said}");
    for option in options() {
        assert!(words.contains(&&*format!("--{option}")), "--{option} is not in {said}");
    }
}

/// <https://no-color.org>; terminfo(5) has no colours for a dumb terminal.
#[test]
fn help_is_in_colour_on_a_terminal_alone() {
    let test = "help_is_in_colour_on_a_terminal_alone";
    let has_escapes = |mut command: Command, variables: &[(&str, &str)]| {
        // Where CI is set, a dumb terminal counts as one that has colours.
        for name in ["NO_COLOR", "CLICOLOR", "CLICOLOR_FORCE", "CI"] {
            command.env_remove(name);
        }
        let output = run(command.env("TERM", "xterm").envs(variables.iter().copied()));
        let text = String::from_utf8(output.stdout).expect("text");
        assert!(text.contains("Usage:") && text.contains("Examples:"), "{text}");
        text.contains('\u{1b}')
    };
    for arg in ["-h", "--help"] {
        let plain = || {
            let mut command = command();
            command.arg(arg);
            command
        };
        assert!(!has_escapes(plain(), &[]), "{arg} into a pipe");
        // util-linux has it run a command on a terminal of its own.
        if !is_there("script") {
            return skip(test, "script is not installed");
        }
        let on_terminal = || {
            let mut script = Command::new("script");
            share_environment(&mut script);
            script.args(["-q", "-e", "-c", &format!("'{}' {arg}", env!("CARGO_BIN_EXE_tared")), "/dev/null"]);
            script
        };
        assert!(has_escapes(on_terminal(), &[]), "{arg} on a terminal");
        assert!(!has_escapes(on_terminal(), &[("NO_COLOR", "1")]), "{arg} with NO_COLOR");
        assert!(!has_escapes(on_terminal(), &[("TERM", "dumb")]), "{arg} on a dumb terminal");
    }
}
