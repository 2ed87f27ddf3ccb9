//! Stands in for the room `compress` in a build without its feature, and says so.

use std::path::PathBuf;

use crate::failure::Failure;

/// What was to be compressed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Compression {
    /// The directory.
    pub dir: PathBuf,
    /// Whether only what goes wrong is said.
    pub is_quiet: bool,
}

impl Compression {
    /// Writes nothing.
    ///
    /// # Errors
    /// Always.
    pub fn run(&self) -> Result<(), Failure> {
        Err(Failure::usage(format!(
            "--compress '{}': this build cannot compress (build it with the feature 'compress')",
            self.dir.display()
        )))
    }
}
