//! The fuzz targets without a fuzzer: every seed, and small mutations of the seeds that are the same
//! each time.

pub mod targets;

use std::fs;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::path::{Path, PathBuf};

/// Mutations of its seeds that a target is tried with: less than 3 s of each. Arbitrary.
const MUTATIONS: usize = 10_000;

#[track_caller]
fn check(target: &str, run: fn(&[u8])) {
    let seeds = seeds(target);
    assert!(seeds.len() >= 10, "a corpus for {target}");
    let try_one = |input: &[u8], origin: &Path| {
        if catch_unwind(AssertUnwindSafe(|| run(input))).is_err() {
            panic!("{target}: {}: b\"{}\"", origin.display(), input.escape_ascii());
        }
    };
    for (path, seed) in &seeds {
        try_one(seed, path);
    }
    let mut random = Random(0x7461_7265_6421);
    for at in 0..MUTATIONS {
        let (path, seed) = &seeds[at % seeds.len()];
        let (_, other) = &seeds[random.below(seeds.len())];
        try_one(&mutated(seed, other, &mut random), path);
    }
}

/// The corpus of `target`, in the order of the names.
fn seeds(target: &str) -> Vec<(PathBuf, Vec<u8>)> {
    let corpus = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/fuzz/corpus").join(target);
    let mut paths: Vec<PathBuf> = fs::read_dir(corpus).unwrap().map(|entry| entry.unwrap().path()).collect();
    paths.sort();
    paths.into_iter().map(|path| (path.clone(), fs::read(path).unwrap())).collect()
}

/// `seed` with one to four small changes, or with a part of `other` in it.
fn mutated(seed: &[u8], other: &[u8], random: &mut Random) -> Vec<u8> {
    /// What means something somewhere.
    const BYTES: &[u8] = b"\r\n\0 \t:,;-%/.?#=\"0159afx*\x7f\x80\xff";
    let mut bytes = seed.to_vec();
    for _ in 0..=random.below(4) {
        let at = random.below(bytes.len() + 1);
        let byte = BYTES[random.below(BYTES.len())];
        match random.below(6) {
            0 => bytes.insert(at, byte),
            1 if at < bytes.len() => bytes[at] = byte,
            2 if at < bytes.len() => bytes[at] ^= 1 << random.below(8),
            3 => drop(bytes.drain(at..bytes.len().min(at + 1 + random.below(8)))),
            4 => bytes.truncate(at),
            _ => {
                let start = random.below(other.len() + 1);
                let end = other.len().min(start + random.below(64));
                drop(bytes.splice(at..at, other[start..end].iter().copied()));
            }
        }
    }
    bytes
}

/// xorshift64 (Marsaglia 2003).
struct Random(u64);

impl Random {
    fn below(&mut self, end: usize) -> usize {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        (self.0 >> 16) as usize % end
    }
}

#[test]
fn request() {
    check("request", targets::request);
}

#[test]
fn range() {
    check("range", targets::range);
}

#[test]
fn target() {
    check("target", targets::target);
}

#[test]
fn date() {
    check("date", targets::date);
}

#[test]
fn framing() {
    check("framing", targets::framing);
}

#[test]
fn connection() {
    check("connection", targets::connection);
}

/// A seed in a misspelt place would never be tried.
#[test]
fn every_corpus_has_its_target() {
    let corpora = fs::read_dir(Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/fuzz/corpus")).unwrap();
    let mut names: Vec<String> =
        corpora.map(|entry| entry.unwrap().file_name().into_string().unwrap()).collect();
    names.sort();
    assert_eq!(names, ["connection", "date", "framing", "range", "request", "target"]);
}
