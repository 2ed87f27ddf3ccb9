//! Black-box tests: they start the real binary on port 0 of loopback and speak raw bytes to it.

mod allocations;
mod arrivals;
mod client;
mod command_line;
mod conditions;
mod files;
mod fixed;
mod fixtures;
mod freshness;
mod heads;
mod inherited;
mod interop;
mod lifecycle;
mod listening;
mod methods;
mod persistence;
mod pipelining;
mod privilege;
mod ranges;
mod restart;
mod sandbox;
mod server;
mod system_calls;
mod trace;
mod unix;
mod workers;
