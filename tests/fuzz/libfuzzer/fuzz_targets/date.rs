#![no_main]
libfuzzer_sys::fuzz_target!(|data: &[u8]| tared_fuzz::targets::date(data));
