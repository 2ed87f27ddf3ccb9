//! The targets, for libFuzzer.

#[path = "../../targets.rs"]
pub mod targets;
