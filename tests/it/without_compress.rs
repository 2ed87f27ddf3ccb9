//! `--compress` in a build that has nothing for it.

use crate::command_line::{USAGE, check_refusal};
use crate::server::command;

#[test]
fn a_build_without_compressors_says_so() {
    check_refusal(command().args(["--compress", "."]), USAGE, &["--compress", "'.'", "feature 'compress'"]);
}
