//! The check that users make before a release: it fails for each mistake that would strand parked foms, and says what
//! to do.

use std::{
    fs,
    path::{Path, PathBuf},
};

use fom_durable::{
    prelude::*,
    testing::{OneWayReason, try_check_release},
};
use fom_runtime::snapshot::Saved;

use crate::kit::release::release;

macro_rules! assert_text {
    ($text:expr) => {
        insta::with_settings!({ omit_expression => true }, { insta::assert_snapshot!($text) })
    };
}

/// An empty directory.
fn dir(name: &str) -> PathBuf {
    let dir = Path::new(env!("CARGO_TARGET_TMPDIR"))
        .join("release-check")
        .join(name);
    let _ = fs::remove_dir_all(&dir);
    dir
}

/// Returns what the check says, without the directory's name.
fn said<O: Persistent>(
    dir: &Path,
    samples: impl IntoIterator<Item = (O, O::Phase)>,
    bless: bool,
) -> String {
    match try_check_release(dir, samples, bless) {
        Ok(()) => "nothing".to_owned(),
        Err(error) => error.to_string().replace(&dir.display().to_string(), "DIR"),
    }
}

/// Samples of a release whose operation has these fields: one for each of the phases.
macro_rules! samples {
    ($release:ident $fields:tt $($phase:ident $({ $($data:tt)* })?),*) => {
        [$((
            $release::Call $fields,
            $release::Route::$phase $({ $($data)* })?,
        )),*]
    };
}

release!(first() struct { pub(super) callee: String, pub(super) tries: u32 } to(Ring, Over) {
    #[phase(end)]
    Ring { endpoint: String, seconds: u64 },
    #[phase(end)]
    Over,
});

fn of_first() -> [(first::Call, first::Route); 3] {
    samples!(first { callee: "ada".into(), tries: 3 }
        Begin, Ring { endpoint: "10.0.0.7".into(), seconds: 32 }, Over)
}

release!(with_default() struct {
    pub(super) callee: String,
    #[serde(default)]
    pub(super) tries: u32,
} to(Ring, Over) {
    #[phase(end)]
    Ring { endpoint: String, seconds: u64 },
    #[phase(end)]
    Over,
});

fn of_first_with_default() -> [(with_default::Call, with_default::Route); 3] {
    samples!(with_default { callee: "ada".into(), tries: 3 }
        Begin, Ring { endpoint: "10.0.0.7".into(), seconds: 32 }, Over)
}

fn files(dir: &Path) -> Vec<(String, Vec<u8>)> {
    let mut files: Vec<_> = fs::read_dir(dir)
        .unwrap()
        .map(|entry| entry.unwrap().path())
        .map(|path| {
            let name = path.file_name().unwrap().to_str().unwrap().to_owned();
            (name, fs::read(path).unwrap())
        })
        .collect();
    files.sort();
    files
}

/// A directory in which the first release was blessed.
fn released(name: &str) -> PathBuf {
    let dir = dir(name);
    assert_eq!(said(&dir, of_first(), true), "nothing");
    dir
}

/// Without files the check asks for permission to write them, and writes none by itself. Then it passes, and changes
/// nothing more.
#[test]
fn a_first_release_asks_for_its_files() {
    let dir = dir("first");
    assert_text!(said(&dir, of_first(), false));
    assert!(!dir.exists());
    assert_eq!(said(&dir, of_first(), true), "nothing");
    let written = files(&dir);
    assert_eq!(written.len(), 3);
    assert!(
        written[0].0.starts_with("Route.v1.Begin."),
        "{}",
        written[0].0
    );
    assert_eq!(said(&dir, of_first(), false), "nothing");
    assert_eq!(said(&dir, of_first(), true), "nothing");
    assert_eq!(files(&dir), written);
}

/// A phase without a sample would not be checked at the next release.
#[test]
fn each_phase_needs_a_sample() {
    let dir = released("sample");
    assert_text!(said(&dir, of_first().into_iter().skip(1), true));
}

release!(renamed() struct { pub(super) callee: String, pub(super) tries: u32 } to(Alert, Over) {
    #[phase(end)]
    Alert { endpoint: String, seconds: u64 },
    #[phase(end)]
    Over,
});
release!(renamed_well() struct { pub(super) callee: String, pub(super) tries: u32 } to(Alert, Over) {
    #[phase(end, was = "Ring")]
    Alert { endpoint: String, seconds: u64 },
    #[phase(end)]
    Over,
});

/// A phase with another name; with `was` the check passes, once the new names have files too.
#[test]
fn a_phase_was_renamed() {
    let dir = released("renamed");
    let samples = || {
        samples!(renamed { callee: "ada".into(), tries: 3 }
            Begin, Alert { endpoint: "10.0.0.7".into(), seconds: 32 }, Over)
    };
    let before = files(&dir);
    assert_text!(said(&dir, samples(), true));
    assert_eq!(files(&dir), before);
    let samples = || {
        samples!(renamed_well { callee: "ada".into(), tries: 3 }
            Begin, Alert { endpoint: "10.0.0.7".into(), seconds: 32 }, Over)
    };
    assert!(said(&dir, samples(), false).contains("has no file of this release"));
    assert_eq!(said(&dir, samples(), true), "nothing");
    assert_eq!(files(&dir).len(), 6);
}

release!(lost() struct { pub(super) callee: String } to(Ring, Over) {
    #[phase(end)]
    Ring { endpoint: String },
    #[phase(end)]
    Over,
});

/// Fields removed from the operation and from a phase.
#[test]
fn fields_were_removed() {
    let dir = released("lost");
    let samples = samples!(lost { callee: "ada".into() }
        Begin, Ring { endpoint: "10.0.0.7".into() }, Over);
    assert_text!(said(&dir, samples, true));
}

release!(added() struct {
    pub(super) callee: String,
    pub(super) tries: u32,
    pub(super) caller: String,
} to(Ring, Over) {
    #[phase(end)]
    Ring { endpoint: String, seconds: u64, loud: bool },
    #[phase(end)]
    Over,
});

release!(added_well() struct {
    pub(super) callee: String,
    pub(super) tries: u32,
    #[serde(default)]
    pub(super) caller: String,
} to(Ring, Park) {
    #[phase(end)]
    Ring {
        endpoint: String,
        seconds: u64,
        #[phase(default)]
        loud: bool,
    },
    #[phase(end, was = "Over")]
    Park,
});
release!(second(, version = 2, migrate(v1(super::nothing)))
    struct { pub(super) callee: String, pub(super) tries: u32 } to(Ring, Over) {
    #[phase(end)]
    Ring { endpoint: String, seconds: u64 },
    #[phase(end)]
    Over,
});
release!(of_the_operation() struct { pub(super) callee: String } to(Ring, Over) {
    #[phase(end)]
    Ring { endpoint: String, seconds: u64 },
    #[phase(end)]
    Over,
});

/// This release reads all of the release before. The release before does not read all of this one.
#[test]
fn the_way_back_is_checked() {
    let dir = released("back");
    let samples = || {
        samples!(added_well { callee: "ada".into(), tries: 3, caller: "bob".into() }
            Begin, Ring { endpoint: "10.0.0.7".into(), seconds: 32, loud: true }, Park)
    };
    let added = said(&dir, samples(), false);
    // The blessing accepts it.
    assert_eq!(said(&dir, samples(), true), "nothing");
    assert_eq!(said(&dir, samples(), false), "nothing");
    let dir = released("back");
    let samples = samples!(second { callee: "ada".into(), tries: 3 }
        Begin, Ring { endpoint: "10.0.0.7".into(), seconds: 32 }, Over);
    let version = said(&dir, samples, false);
    assert_text!(format!("{added}\n\n----\n\n{version}"));
}

/// A release that changes only a field of the operation has files of its own.
#[test]
fn a_change_of_the_operation_alone_is_blessed_too() {
    let dir = dir("operation");
    let samples = samples!(of_the_operation { callee: "ada".into() }
        Begin, Ring { endpoint: "10.0.0.7".into(), seconds: 32 }, Over);
    assert_eq!(said(&dir, samples, true), "nothing");
    let error = try_check_release(&dir, of_first_with_default(), false).unwrap_err();
    assert_eq!(error.missing, ["Begin", "Ring", "Over"]);
    assert!(error.stranded.is_empty());
    assert_eq!(error.one_way.len(), 3);
    assert_eq!(
        error.one_way[0].reason,
        OneWayReason::OperationField("tries".into())
    );
}

/// Fields added without a default.
#[test]
fn fields_were_added() {
    let dir = released("added");
    let samples = samples!(added { callee: "ada".into(), tries: 3, caller: "bob".into() }
        Begin, Ring { endpoint: "10.0.0.7".into(), seconds: 32, loud: true }, Over);
    assert_text!(said(&dir, samples, true));
}

release!(retyped() struct { pub(super) callee: String, pub(super) tries: u32 } to(Ring, Over) {
    #[phase(end)]
    Ring { endpoint: (u8, u8, u8, u8), seconds: u64 },
    #[phase(end)]
    Over,
});

/// A type that changed under the same names.
#[test]
fn a_type_was_changed() {
    let dir = released("retyped");
    let samples = samples!(retyped { callee: "ada".into(), tries: 3 }
        Begin, Ring { endpoint: (10, 0, 0, 7), seconds: 32 }, Over);
    assert_text!(said(&dir, samples, true));
}

release!(dropped(, version = 2, migrate(v1(super::nothing)), retired("Over"))
    struct { pub(super) callee: String, pub(super) tries: u32 } to(Ring, Ended) {
    #[phase(end)]
    Ring { endpoint: String, seconds: u64 },
    #[phase(end)]
    Ended,
});

fn nothing(_: &mut Saved) -> Result<(), BoxError> {
    Ok(())
}

release!(failing(, version = 2, migrate(v1(super::fails)))
    struct { pub(super) callee: String, pub(super) tries: u32 } to(Ring, Over) {
    #[phase(end)]
    Ring { endpoint: String, seconds: u64 },
    #[phase(end)]
    Over,
});

fn fails(saved: &mut Saved) -> Result<(), BoxError> {
    let _: u64 = saved.take("millis")?;
    Ok(())
}

/// A phase dropped without a replacement, and a migration that fails.
#[test]
fn migrations_are_wrong() {
    let dir = released("migrations");
    let samples = samples!(dropped { callee: "ada".into(), tries: 3 }
        Begin, Ring { endpoint: "10.0.0.7".into(), seconds: 32 }, Ended);
    let dropped = said(&dir, samples, true);
    let dir = released("migrations");
    let samples = samples!(failing { callee: "ada".into(), tries: 3 }
        Begin, Ring { endpoint: "10.0.0.7".into(), seconds: 32 }, Over);
    assert_text!(format!(
        "{dropped}\n\n----\n\n{}",
        said(&dir, samples, true)
    ));
}

release!(late(, version = 3, migrate(v2(super::nothing)))
    struct { pub(super) callee: String, pub(super) tries: u32 } to(Ring, Over) {
    #[phase(end)]
    Ring { endpoint: String, seconds: u64 },
    #[phase(end)]
    Over,
});

/// A version that is no longer migrated from, a version that went back, and a file that is no snapshot.
#[test]
fn files_of_others() {
    let late_samples = || {
        samples!(late { callee: "ada".into(), tries: 3 }
            Begin, Ring { endpoint: "10.0.0.7".into(), seconds: 32 }, Over)
    };
    let too_late = said(&released("others"), late_samples(), true);
    let dir = dir("others");
    assert_eq!(said(&dir, late_samples(), true), "nothing");
    let back = said(&dir, of_first(), true);
    fs::write(dir.join("broken.fom"), b"FOM2 and no more").unwrap();
    fs::write(dir.join("README.md"), b"is no snapshot by its name").unwrap();
    let broken = said(&dir, late_samples(), true);
    assert_text!(format!("{too_late}\n\n----\n\n{back}\n\n----\n\n{broken}"));
}

/// Called from a test, it panics with all of that.
#[test]
#[should_panic(expected = "run this test once with FOM_BLESS=1")]
fn as_a_test_it_panics() {
    fom_durable::testing::check_release(dir("panics"), of_first());
}
