//! Running the binary as a user whom the system refuses something.

use std::os::unix::fs::MetadataExt;
use std::process::Command;

use crate::server::{command, command_through, run};

/// The binary, run by a user other than root: as we are, or as nobody. `None` if that cannot be had.
pub(crate) fn unprivileged() -> Option<Command> {
    if std::fs::metadata("/proc/self").ok()?.uid() != 0 {
        return Some(command());
    }
    run(as_nobody().arg("--version")).status.success().then(as_nobody)
}

/// Why [`unprivileged`] is `None`.
pub(crate) const NO_OTHER_USER: &str =
    "root is refused nothing, and setpriv cannot start the binary as nobody";

fn as_nobody() -> Command {
    let mut through = Command::new("sh");
    // A missing setpriv is then an exit status and not a panic.
    through.args(["-c", "exec setpriv --reuid 65534 --regid 65534 --clear-groups -- \"$@\"", "sh"]);
    command_through(through)
}
