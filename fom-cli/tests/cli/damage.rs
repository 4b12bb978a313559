//! Damaged and hostile files: each command reports them, and none panics.

use std::{
    fs,
    path::{Path, PathBuf},
};

use fom_durable::journal::{Batch, Damage, EntryId, FileJournal, Journal as _, Recover};
use serde_json::Value;

use crate::program::{Order, errors, fom, leave, lines, open, out};

const READING: [&str; 4] = ["list", "stats", "verify", "dump"];

/// Returns the segments of a journal, the oldest first.
fn segments(directory: &Path) -> Vec<PathBuf> {
    let entries = fs::read_dir(directory).unwrap();
    let mut paths: Vec<_> = entries.map(|entry| entry.unwrap().path()).collect();
    paths.retain(|path| path.extension().is_some_and(|extension| extension == "log"));
    paths.sort();
    paths
}

/// Returns the segment that contains this text, and the offset.
fn find(directory: &Path, text: &str) -> (PathBuf, usize) {
    let found = segments(directory).into_iter().find_map(|path| {
        let bytes = fs::read(&path).unwrap();
        let at = bytes
            .windows(text.len())
            .rposition(|window| window == text.as_bytes())?;
        Some((path, at))
    });
    found.unwrap()
}

fn no_panic(command: &str, directory: &Path, more: &[&str]) -> Option<i32> {
    let output = fom(command, directory, more);
    let errors = errors(&output);
    assert!(!errors.contains("panicked"), "{command}: {errors}");
    output.status.code()
}

#[test]
fn a_flipped_bit_is_reported_with_file_and_offset() {
    let directory = tempfile::tempdir().unwrap();
    leave(directory.path(), 5);
    let (path, at) = find(directory.path(), "item 3");
    let mut bytes = fs::read(&path).unwrap();
    bytes[at] ^= 1;
    fs::write(&path, bytes).unwrap();

    for command in READING {
        let output = fom(command, directory.path(), &[]);
        assert_eq!(output.status.code(), Some(1), "{command}");
        let errors = errors(&output);
        let name = path.file_name().unwrap().to_str().unwrap();
        assert!(
            errors.contains("at offset") && errors.contains(name),
            "{command}: {errors}"
        );
        assert!(errors.contains("lost"), "{command}: {errors}");
    }
    // The others are there.
    let listed = out(&fom("list", directory.path(), &[]));
    assert!(
        listed.contains("order-2") && !listed.contains("order-3"),
        "{listed}"
    );
    let verified = lines(&fom("verify", directory.path(), &["--json"]));
    assert_eq!(verified[0]["damaged"], 1);
    // It is not made worse.
    let compacted = fom("compact", directory.path(), &[]);
    assert_eq!(compacted.status.code(), Some(1));
    assert!(errors(&compacted).contains("is not compacted"));
}

#[test]
fn a_truncated_file_of_a_closed_journal_is_damage() {
    let directory = tempfile::tempdir().unwrap();
    leave(directory.path(), 5);
    let (path, at) = find(directory.path(), "item 2");
    let file = fs::OpenOptions::new().write(true).open(&path).unwrap();
    file.set_len(at as u64).unwrap();
    for command in READING {
        assert_eq!(
            no_panic(command, directory.path(), &[]),
            Some(1),
            "{command}"
        );
    }
    let errors = errors(&fom("verify", directory.path(), &[]));
    assert!(errors.contains("at offset"), "{errors}");
}

/// Splitmix64.
fn random(state: &mut u64) -> u64 {
    *state = state.wrapping_add(0x9e37_79b9_7f4a_7c15);
    let mut bits = *state;
    bits = (bits ^ (bits >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    bits = (bits ^ (bits >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    bits ^ (bits >> 31)
}

#[test]
fn random_bytes_are_refused_without_a_panic() {
    let mut state = 7;
    for case in 0..8 {
        let directory = tempfile::tempdir().unwrap();
        let name = directory.path().join("0000000000000001.log");
        let length = random(&mut state) % 20_000;
        let bytes: Vec<u8> = (0..length).map(|_| random(&mut state) as u8).collect();
        fs::write(name, bytes).unwrap();
        if case % 2 == 0 {
            fs::write(
                directory.path().join("MANIFEST"),
                random(&mut state).to_le_bytes(),
            )
            .unwrap();
        }
        for command in READING {
            assert_eq!(
                no_panic(command, directory.path(), &[]),
                Some(1),
                "{command}"
            );
        }
    }
}

#[test]
fn many_random_flips_cause_no_panic() {
    let whole = tempfile::tempdir().unwrap();
    leave(whole.path(), 5);
    let files = segments(whole.path());
    let (_, end) = find(whole.path(), "item 4");
    let mut state = 1;
    for case in 0..24 {
        let directory = tempfile::tempdir().unwrap();
        for path in fs::read_dir(whole.path())
            .unwrap()
            .map(|entry| entry.unwrap().path())
        {
            if path.is_file() {
                fs::copy(&path, directory.path().join(path.file_name().unwrap())).unwrap();
            }
        }
        let path = directory.path().join(files[0].file_name().unwrap());
        let mut bytes = fs::read(&path).unwrap();
        for _ in 0..=case {
            let at = random(&mut state) as usize % (end + 200).min(bytes.len());
            bytes[at] ^= 1 << (random(&mut state) % 8);
        }
        fs::write(&path, bytes).unwrap();
        no_panic(READING[case % 4], directory.path(), &["--json"]);
        no_panic("show", directory.path(), &["order-1"]);
    }
}

/// The entries of a journal.
#[derive(Default)]
struct Entries(Vec<(EntryId, Vec<u8>)>);

impl Recover for Entries {
    fn entry(&mut self, id: EntryId, bytes: &[u8]) {
        self.0.push((id, bytes.to_vec()));
    }

    fn damaged(&mut self, _: EntryId, damage: Damage) {
        panic!("{damage}");
    }
}

/// The checksums of such a journal are right: a stranger wrote it. What is no text or number is never taken for one.
#[test]
fn hostile_records_with_right_checksums_cause_no_panic_and_no_broken_json() {
    let whole = tempfile::tempdir().unwrap();
    leave(whole.path(), 3);
    let mut entries = Entries::default();
    FileJournal::inspect(whole.path(), &mut entries).unwrap();
    let mut state = 3;
    let mut unreadable = 0;
    for _ in 0..100 {
        let directory = tempfile::tempdir().unwrap();
        let options = FileJournal::options()
            .segment_bytes(1 << 14)
            .background(false);
        let mut journal = options.open(directory.path()).unwrap();
        journal.recover(&mut Entries::default()).unwrap();
        let mut batch = Batch::new();
        for (id, bytes) in &entries.0 {
            let mut bytes = bytes.clone();
            for _ in 0..random(&mut state) % 4 {
                let at = random(&mut state) as usize % bytes.len();
                match random(&mut state) % 3 {
                    0 => bytes.truncate(at.max(1)),
                    1 => bytes[at] = random(&mut state) as u8,
                    // Lists and maps that promise 2^32 items, and extensions.
                    _ => {
                        bytes[at] = [0xdd, 0xdf, 0xc6, 0xc9, 0xd4][random(&mut state) as usize % 5]
                    }
                }
            }
            batch.put(*id, &bytes);
        }
        batch.end_group();
        journal.commit(&batch).unwrap();
        drop(journal);
        for command in ["dump", "list", "stats", "verify"] {
            let directory = directory.path().to_str().unwrap();
            let (mut out, mut errors) = (Vec::new(), Vec::new());
            let arguments = ["fom", "journal", command, directory, "--json"];
            let status = fom_cli::run(arguments, &mut out, &mut errors);
            let errors = String::from_utf8(errors).unwrap();
            let out = String::from_utf8(out).unwrap();
            let lines = out.lines().map(|line| serde_json::from_str(line).unwrap());
            let lines: Vec<Value> = lines.collect();
            // What cannot be read is named by its place, also by the commands that show the rest.
            if command == "verify" {
                let number = |name: &str| lines[0][name].as_u64().unwrap();
                let damaged = number("damaged");
                assert_eq!(number("records") + damaged, entries.0.len() as u64);
                assert_eq!(u64::from(status), damaged.min(1));
                let damage = lines[0]["damage"].as_array().unwrap();
                for sentence in damage {
                    assert!(is_placed(sentence.as_str().unwrap()), "{sentence}");
                }
                unreadable += damaged;
            } else if status == 1 {
                assert!(errors.lines().all(is_placed), "{errors}");
            } else {
                assert_eq!((status, &*errors), (0, ""));
            }
        }
    }
    assert!(unreadable > 50, "{unreadable}");
}

/// Returns whether the sentence names the offset, the file, and what is there.
fn is_placed(sentence: &str) -> bool {
    let words = [" bytes at offset ", ".log: ", " cannot be read"];
    words.iter().all(|word| sentence.contains(word))
}

/// One segment, and the table of the places: 29 to 57 bytes for each live fom, as full as the table is.
#[cfg(target_os = "linux")]
#[test]
fn many_foms_take_little_memory() {
    const FOMS: u64 = 400_000;

    let few = tempfile::tempdir().unwrap();
    leave(few.path(), 3);
    let mut entries = Entries::default();
    FileJournal::inspect(few.path(), &mut entries).unwrap();
    let (last, fom) = entries.0.last().unwrap().clone();
    let many = tempfile::tempdir().unwrap();
    let options = FileJournal::options()
        .segment_bytes(1 << 20)
        .background(false);
    let mut journal = options.open(many.path()).unwrap();
    journal.recover(&mut Entries::default()).unwrap();
    let mut ids = (0..FOMS).map(|n| EntryId(last.0 + 1 + n)).peekable();
    let mut batch = Batch::new();
    entries
        .0
        .iter()
        .for_each(|(id, bytes)| batch.put(*id, bytes));
    while ids.peek().is_some() {
        ids.by_ref().take(10_000).for_each(|id| batch.put(id, &fom));
        batch.end_group();
        journal.commit(&batch).unwrap();
        batch = Batch::new();
    }
    drop(journal);
    // In MiB, the least for few foms.
    let (mut too_little, mut enough) = (0, 512);
    while enough - too_little > 1 {
        let middle = (too_little + enough) / 2;
        match verify_within(middle, few.path()) {
            true => enough = middle,
            false => too_little = middle,
        }
    }
    let allowed = 1 + ((64 * FOMS) >> 20);
    assert!(
        verify_within(enough + allowed, many.path()),
        "few foms take {enough} MiB"
    );
}

/// Returns whether `fom journal verify` succeeds with this many MiB of addresses.
#[cfg(target_os = "linux")]
fn verify_within(mebibytes: u64, directory: &Path) -> bool {
    let kibibytes = mebibytes << 10;
    let status = std::process::Command::new("sh")
        .arg("-c")
        .arg(format!(
            "ulimit -v {kibibytes}; exec \"$0\" journal verify \"$1\""
        ))
        .arg(env!("CARGO_BIN_EXE_fom"))
        .arg(directory)
        .stdout(std::process::Stdio::null())
        .stderr(std::process::Stdio::null())
        .status();
    status.unwrap().success()
}

/// As JSON in a tree, the values of this order would take 400 MB.
#[cfg(target_os = "linux")]
#[test]
fn a_long_value_takes_no_memory_beside_the_segment() {
    use std::process::{Command, Stdio};

    use fom_durable::prelude::*;
    use serde::{Deserialize, Serialize};

    #[derive(Serialize, Deserialize)]
    struct Bulk {
        order: Order,
        weights: Vec<u8>,
    }

    #[fom(operation(Bulk))]
    enum Weighing {
        #[phase(start, to(Weighed))]
        Weigh,
        #[phase(end)]
        Weighed,
    }

    impl WeighingTransitions for Bulk {
        async fn weigh(&mut self, _: &mut Cx<'_>) -> Result<(), BoxError> {
            std::future::pending().await
        }
    }

    let directory = tempfile::tempdir().unwrap();
    let runtime = open(directory.path());
    let order = Order {
        item: "sand".to_owned(),
        pieces: 1,
    };
    let weights = vec![7; 12 << 20];
    drop(runtime.submit(Bulk { order, weights }).key("bulk").start());
    fom_runtime::extension::block_on(runtime.quiet());
    drop(runtime);
    for command in ["dump", "verify", "list"] {
        // 80 MB of addresses, of which the program itself takes the larger part.
        let status = Command::new("sh")
            .args(["-c", "ulimit -v 80000; exec \"$0\" journal \"$1\" \"$2\""])
            .args([env!("CARGO_BIN_EXE_fom"), command])
            .arg(directory.path())
            .stdout(Stdio::null())
            .status()
            .unwrap();
        assert_eq!(status.code(), Some(0), "{command}");
    }
}
