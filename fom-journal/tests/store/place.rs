//! The directory of a journal: which processes may use it, and what happens when it changes under the journal.

use std::{
    env, fs,
    os::unix::{
        fs::{PermissionsExt, symlink},
        process::ExitStatusExt,
    },
    path::{Path, PathBuf},
    process::{Command, ExitStatus},
};

use fom_journal::{FileJournal, Journal, JournalError};

use crate::kit::{Place, open, put, small};

/// A directory that the journal makes is for the user of the process alone. An existing directory keeps its
/// permissions.
#[test]
fn a_new_directory_is_private() {
    let mode = |place: &Place| fs::metadata(place.path()).unwrap().permissions().mode() & 0o777;
    let place = Place::new();
    drop(FileJournal::open(place.path()).unwrap());
    assert_eq!(mode(&place), 0o700);
    let place = Place::new();
    fs::create_dir(place.path()).unwrap();
    fs::set_permissions(place.path(), fs::Permissions::from_mode(0o750)).unwrap();
    drop(FileJournal::open(place.path()).unwrap());
    assert_eq!(mode(&place), 0o750);
}

/// The directory may be a link to another one. The lock belongs to the directory, by any name.
#[test]
fn a_link_to_a_directory_is_that_directory() {
    let place = Place::new();
    let (mut journal, ..) = open(small(), place.path()).unwrap();
    put(&mut journal, &[(70_000, b"a")]).unwrap();
    let link = Place::new();
    symlink(place.path(), link.path()).unwrap();
    let refused = FileJournal::open(link.path());
    assert!(
        matches!(refused, Err(JournalError::Locked(_))),
        "{refused:?}"
    );
    drop(journal);
    let (mut journal, given, _) = open(small(), link.path()).unwrap();
    assert_eq!(given.entries.len(), 1);
    for id in 70_001..70_050 {
        put(&mut journal, &[(id, &[1; 100])]).unwrap();
    }
    drop(journal);
    fs::remove_file(link.path()).unwrap();
    assert_eq!(open(small(), place.path()).unwrap().1.entries.len(), 50);
}

/// If the directory is gone, the next attempt to make a file fails, and the error names the directory.
#[test]
fn a_directory_that_is_gone_is_named() {
    let place = Place::new();
    let (mut journal, ..) = open(small(), place.path()).unwrap();
    put(&mut journal, &[(70_000, b"a")]).unwrap();
    fs::remove_dir_all(place.path()).unwrap();
    let failed = (0..100).find_map(|id| put(&mut journal, &[(id, &[1; 100])]).err());
    match failed {
        Some(JournalError::Io { path, .. }) => assert!(path.starts_with(place.path())),
        other => panic!("{other:?}"),
    }
}

/// Numbers in the files are little-endian on every machine. The first release wrote these bytes.
#[test]
fn the_files_are_the_same_on_every_machine() {
    let place = Place::new();
    fs::create_dir(place.path()).unwrap();
    let golden = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/store/kit/format-1");
    let segment = place.path().join("0000000000000002.log");
    fs::copy(format!("{golden}.log"), segment).unwrap();
    fs::copy(format!("{golden}.manifest"), place.manifest()).unwrap();
    let (_, given, found) = open(small(), place.path()).unwrap();
    assert_eq!((found.torn, found.gaps), (None, vec![]));
    let expected = [
        (1, b"schema".to_vec()),
        (70_000, b"ringing".to_vec()),
        (u64::MAX, Vec::new()),
    ];
    assert_eq!(given.entries, expected.into());
}

/// The variable with the place that a parent process passes to its child.
const PLACE: &str = "FOM_TEST_PLACE";

/// Runs the test of that name again in a process of its own, with `place` in its environment.
fn run_again(test: &str, place: &Place) -> ExitStatus {
    let mut command = Command::new(env::current_exe().unwrap());
    command
        .args([test, "--exact", "--test-threads=1"])
        .env(PLACE, place.path());
    command.status().unwrap()
}

/// Returns the place of a child process; `None` in the parent.
fn given_place() -> Option<PathBuf> {
    env::var_os(PLACE).map(Into::into)
}

/// A fork shares the journal and its lock: its commits fail. Dropping its journal does not record where the end is, and
/// does not unlock the journal.
#[test]
fn a_fork_does_not_write() {
    if let Some(place) = given_place() {
        return fork_in(&place);
    }
    let place = Place::new();
    assert!(run_again("place::a_fork_does_not_write", &place).success());
    let (_, given, found) = open(small(), place.path()).unwrap();
    assert_eq!((given.entries.len(), found.torn), (3, None));
}

fn fork_in(place: &Path) {
    let (mut journal, ..) = open(small(), place).unwrap();
    put(&mut journal, &[(70_000, b"before")]).unwrap();
    // SAFETY: the fork does all its work with this thread alone, and ends without running exit handlers.
    let child = unsafe { libc::fork() };
    if child == 0 {
        let refused = put(&mut journal, &[(70_001, b"in the fork")]);
        let refused = matches!(refused, Err(JournalError::Locked(_)));
        let tidied = journal.tidy().is_err();
        drop(journal);
        // SAFETY: the call ends the process, and does nothing else.
        unsafe { libc::_exit(if refused && tidied { 0 } else { 1 }) };
    }
    let mut status = 0;
    // SAFETY: the call waits for the fork and writes to a local number.
    let ended = unsafe { libc::waitpid(child, &raw mut status, 0) };
    assert_eq!(ended, child);
    let status = ExitStatus::from_raw(status);
    assert!(matches!(
        FileJournal::open(place),
        Err(JournalError::Locked(_))
    ));
    // If the fork had recorded the end, these would be hidden.
    put(&mut journal, &[(70_002, b"after")]).unwrap();
    put(&mut journal, &[(70_003, b"after")]).unwrap();
    // As after a kill: a journal that is dropped records where its end is.
    std::mem::forget(journal);
    assert!(status.success(), "{status}");
}

/// A process may change its directory after it opened a journal by a relative path.
#[test]
fn a_relative_path_stays_where_it_was() {
    if let Some(place) = given_place() {
        return go_elsewhere_from(&place);
    }
    let place = Place::new();
    fs::create_dir(place.path()).unwrap();
    assert!(run_again("place::a_relative_path_stays_where_it_was", &place).success());
    let path = place.path().join("journal");
    assert_eq!(open(small(), &path).unwrap().1.entries.len(), 50);
}

fn go_elsewhere_from(place: &Path) {
    env::set_current_dir(place).unwrap();
    let (mut journal, ..) = open(small(), "journal".as_ref()).unwrap();
    env::set_current_dir("/").unwrap();
    for id in 70_000..70_050 {
        put(&mut journal, &[(id, &[1; 100])]).unwrap();
    }
}
