//! The seeds and the findings of the fuzzer are answered without harm: see `fom-runtime/fuzz/README.md`.

use std::{fs, path::PathBuf};

use crate::kit::limited;

#[path = "../../../fom-runtime/fuzz/src/request.rs"]
mod request;

#[test]
fn the_corpus_is_answered_without_harm() {
    limited(|| {
        let manifest = PathBuf::from(env!("CARGO_MANIFEST_DIR"));
        let corpus = manifest.join("../fom-runtime/fuzz/corpus/request");
        let mut files: Vec<_> = fs::read_dir(corpus)
            .unwrap()
            .map(|file| file.unwrap().path())
            .collect();
        files.sort();
        assert!(!files.is_empty());
        for file in files {
            // Shown if an input is answered wrongly.
            println!("{}", file.display());
            request::request(&fs::read(file).unwrap());
        }
    });
}
