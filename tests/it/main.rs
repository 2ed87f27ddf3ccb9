//! Black-box tests: they start the real binary on port 0 of loopback and speak raw bytes to it.

mod allocations;
mod arrivals;
mod bounded;
mod client;
mod command_line;
mod conditions;
mod files;
mod fixed;
mod fixtures;
mod freshness;
mod heads;
mod interop;
mod lifecycle;
mod methods;
mod persistence;
mod pipelining;
mod privilege;
mod ranges;
mod report;
mod reported;
mod server;
mod system_calls;
mod trace;
mod verdict;
mod workers;
