//! `tared`: a minimal raw-socket static file server, and the zero-overhead baseline target of a
//! benchmark.
//!
//! A single-threaded mio event loop accepts connections, parses requests with httparse into reusable
//! pooled parser slots, and writes precomputed keep-alive/close response buffers or mmapped file
//! bytes. Bytes flow down this list, decisions are values, and borrowing points one way.
//!
//! # Start
//! - `typed`: what can be typed
//! - `manual`: what is said besides, in help and on a manual page; completions
//! - [`cli`]: what was typed → what it means
//! - [`workers`]: one loop, or several that share nothing but the address
//! - [`open`]: what is to be served → the site, opened
//! - [`value`]: whether what is typed can stand in a field
//! - [`address`]: where to listen, as it is typed
//! - [`bind`]: address → listening sockets
//! - [`inherited`]: listening sockets that were handed down
//! - [`socket_file`]: a unix socket's name in the file system
//! - [`privilege`]: giving up root
//! - [`sandbox`]: nothing but the site is read, and nothing written
//! - [`pid_file`]: the number of this process, in a file
//! - [`reach`]: the addresses that reach it, and the browser
//! - [`ready`]: telling that connections are accepted
//! - [`signals`]: which of them end it
//! - [`compress`]: files → siblings with a content coding, beforehand
//! - [`check`]: asking a server whether it answers
//! - [`failure`]: one sentence and an exit status
//!
//! # The path of one request
//! - [`listener`]: accepting in bounded bites
//! - [`server`]: wait, tick the clock, token → connection
//! - [`deadlines`]: how long a client is waited for
//! - [`table`]: the open connections under tokens that never come again
//! - [`conn`]: one client's life: the only read and the only write
//! - [`pool`]: reusable parser slots
//! - [`request`]: bytes → the few facts that change the answer
//! - [`framing`]: request bodies, skipped
//! - [`site`]: request → answer
//! - [`target`]: request target → path
//! - [`pages`]: status → a page of the site's own
//! - [`files`]: path → representation, cached
//! - [`directory`]: path → listing of a directory, made in bites and kept
//! - [`listing`]: names → HTML or JSON
//! - [`beneath`]: path → open file, never outside the root
//! - [`mime`]: name → Content-Type
//! - [`policy`]: name → what else the operator wants said
//! - [`representation`]: one state of a file as HTTP tells of it
//! - [`accept`]: what a client would rather have
//! - [`coding`]: Accept-Encoding × forms of a file → which of them
//! - [`plan`]: conditions and ranges → which answer, in the order of RFC 9110 §13.2.2
//! - [`range`]: a Range field × length → spans
//! - [`head`]: precomputed responses
//! - [`refusal`]: why not, in words
//! - [`clock`]: the only clock
//! - [`outbox`]: the batch on its way out, and its unsent tail
//! - [`log`]: what was answered in a turn, written down when it ends, if that is asked for
//! - [`entry`]: a request and its answer → a line
//! - [`proxies`]: who is believed when it says for whom it asks
//! - [`log_file`]: where lines go, without waiting
//! - `sys`: all `unsafe`
//!
//! # Who was the limit
//! - [`tally`]: what a worker counts, plain integers of its own
//! - [`usage`]: what it took of its CPU, and when there was traffic
//! - [`budget`]: how many requests may still be answered
//! - [`board`]: where workers put what they counted, so that it is seen together
//! - [`environment`]: what the kernel and the machine say of themselves
//! - [`report`]: counts → one report
//! - [`verdict`]: figures → one or two sentences
//! - [`reporter`]: when and where a report is given
//! - [`output`]: text into a file, whole or not at all, or to standard error
//!
//! # Invariants
//! - **Mapped bytes are only ever handed to the kernel.** [`head::Body`] gives out slices for writing
//!   and nothing else. While a mapped body is being sent, its file's size is checked before each
//!   further write; if it was cut shorter the connection is cut too, so that the client sees a short
//!   body and not a wrong one. If not a byte of the response has left, its request is answered anew.
//! - **A response is immutable.** Date is stamped into the copy that goes out, not into the template,
//!   so a template can be shared, evicted and outlived freely.
//! - **Small files are read, larger ones mapped, the largest sent by the kernel alone.** What is read
//!   (up to 64 KiB) cannot change under its head: a file that is cut shorter in place cannot show the
//!   zeros of its last page under the old length. The kernel copies from our memory at the price of
//!   copying from the page cache. From 768 KiB on sendfile(2) is cheaper than a mapping, and ends by
//!   itself where the file does. Files over 64 KiB cost one `fstat` a request, so that head and bytes
//!   agree. What nobody can mend: a file overwritten in place, without being cut, while it is being sent; and
//!   zeros where a file is cut in place behind our last look, in bytes that the kernel is copying from a
//!   mapping, or has taken by sendfile and not delivered: the socket holds the file's own pages.
//! - **Readiness is edge-triggered**, registered once. Whoever stops before `WouldBlock` goes on the
//!   ready list.
//! - **While a tail is unsent nothing is parsed**, and an idle connection owns no buffer.
//! - **A body is skipped before its request is answered**, so that a malformed one is refused and no
//!   client is answered before it has spoken; but a client that waits (`Expect`), or whose body is
//!   too large to skip, is answered at once and for the last time.
//! - **To count is to add one** to a number of this worker's own, where the counted thing happens. Clocks
//!   of the CPU are read when a report asks for them.
//! - **What takes long is done in bites.** A listing that is not ready is [`site::Answer::NotYet`]: its request
//!   stays unread, and is asked again in the next turn of the loop.
//! - **A connection has one deadline**, that of what it waits for now. It is moved by storing the time; the
//!   wheel only says when to look.
//!
//! # Absent on purpose
//! No clock outside [`clock`] and [`usage`] (but for the last wait of [`log`]), no `unsafe` outside `sys`, no
//! thread that shares anything with another on the request path (but for `--max-requests`, one number), no
//! logging on the request path unless `--log` asks for it (then a line in memory for each answer, and one
//! write for each turn), no cached absence, no TLS, no HTTP/2, no proxying, no uploads.

pub mod accept;
pub mod address;
pub mod beneath;
pub mod bind;
pub mod board;
pub mod budget;
pub mod check;
pub mod cli;
pub mod clock;
pub mod coding;
#[cfg_attr(not(feature = "compress"), path = "without_compress.rs")]
pub mod compress;
pub mod conn;
pub mod deadlines;
pub mod directory;
pub mod entry;
pub mod environment;
pub mod failure;
pub mod files;
pub mod framing;
pub mod head;
pub mod inherited;
pub mod listener;
pub mod listing;
pub mod log;
pub mod log_file;
mod manual;
pub mod mime;
pub mod open;
pub mod outbox;
pub mod output;
pub mod pages;
pub mod pid_file;
pub mod plan;
pub mod policy;
pub mod pool;
pub mod privilege;
pub mod proxies;
pub mod range;
pub mod reach;
pub mod ready;
pub mod refusal;
pub mod report;
pub mod reporter;
pub mod representation;
pub mod request;
pub mod sandbox;
pub mod server;
pub mod signals;
pub mod site;
pub mod socket_file;
mod sys;
pub mod table;
pub mod tally;
pub mod target;
mod typed;
pub mod usage;
pub mod value;
pub mod verdict;
pub mod workers;
