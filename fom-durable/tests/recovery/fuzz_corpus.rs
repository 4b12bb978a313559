//! The seeds and the findings of the fuzzer are read without harm: see `fom-runtime/fuzz/README.md`. Each test
//! has a process of its own, since the allocator refuses too much memory to all of its threads.

#[path = "../../../fom-runtime/fuzz/src/mod.rs"]
#[allow(unreachable_pub, reason = "it is a library of its own, too")]
mod fuzz;

use std::{env, fs, path::PathBuf};

use crate::kit::alone::alone;

type Target = fn(&[u8]);

const TARGETS: [(&str, Target); 4] = [
    ("journal", fuzz::journal),
    ("record", fuzz::record),
    ("restart", fuzz::restart),
    ("snapshot", fuzz::snapshot),
];

fn corpus(target: &str) -> PathBuf {
    let manifest = PathBuf::from(env!("CARGO_MANIFEST_DIR"));
    manifest.join("../fom-runtime/fuzz/corpus").join(target)
}

fn seeds() -> [(&'static str, Vec<Vec<u8>>); 4] {
    let records = fuzz::seeds::records();
    assert!(records.len() >= 5, "foms, an outcome, and an event");
    assert!(
        fuzz::is_opened(&fuzz::seeds::journals()[4]),
        "one that was closed"
    );
    [
        ("journal", fuzz::seeds::journals()),
        ("snapshot", fuzz::seeds::snapshots()),
        ("record", records.clone()),
        ("restart", records),
    ]
}

/// Each file of the corpus is read by its target.
#[test]
fn the_corpus_is_read_without_harm() {
    alone(|| {
        for (name, target) in TARGETS {
            let mut files: Vec<_> = fs::read_dir(corpus(name))
                .unwrap()
                .map(|file| file.unwrap().path())
                .collect();
            files.sort();
            assert!(!files.is_empty());
            for file in files {
                // Shown if the target panics or the process is ended.
                println!("{}", file.display());
                target(&fs::read(file).unwrap());
            }
        }
    });
}

/// What the library writes today is read, too. The corpus has what the library wrote before. After a change of a
/// format, `FOM_BLESS=1 cargo test -p fom-durable --test recovery fuzz_corpus` writes the seeds anew.
#[test]
fn what_is_written_today_is_read() {
    alone(|| {
        for (name, inputs) in seeds() {
            let target = TARGETS.iter().find(|(target, _)| *target == name);
            let (_, target) = target.unwrap();
            let is_blessed = env::var_os("FOM_BLESS").is_some_and(|bless| bless == "1");
            for (at, input) in inputs.iter().enumerate() {
                target(input);
                if is_blessed {
                    fs::create_dir_all(corpus(name)).unwrap();
                    fs::write(corpus(name).join(format!("seed-{at:02}")), input).unwrap();
                }
            }
        }
    });
}
