#![no_main]

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| fom_fuzz::snapshot(bytes));
