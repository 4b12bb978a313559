//! Checks whether a release can read what earlier releases saved, and what the release before can read of its own.

use std::{
    collections::BTreeSet,
    env, fmt, fs, io,
    path::{Path, PathBuf},
};

use fom_runtime::{
    __durability::Schema,
    Persistent,
    machine::Graph,
    snapshot::{RestoreError, Saved, Snapshot, SnapshotError},
};

use crate::testing::rollback::{OneWay, one_way, operation_fingerprint};

/// If set to anything but `0`, [`check_release`] writes the files that are missing.
const BLESS: &str = "FOM_BLESS";

/// Fails if this release would strand foms that earlier releases left parked.
///
/// `dir` has one file for each phase of each release: a snapshot that was made by that release. Today's code must be
/// able to read every file, through its migrations. Each phase of today's code needs a file, made from the `samples`,
/// so that the next release is checked against it. Call this function in a test, with a separate directory for each
/// machine, and keep the directory in the repository. A relative path is relative to the package, where `cargo test`
/// runs.
///
/// With `FOM_BLESS=1` in the environment, the function writes the missing files, unless something is stranded or
/// unreadable. It never changes or deletes a file. Delete a file by hand when no fom can be parked in its state any
/// more.
///
/// **The way back.** A release without files of its own is *not blessed yet*. The message then also lists what the
/// release before cannot read of this one ([`OneWay`]): after a rollback such foms wait in quarantine. The function
/// compares names. It does not see a changed type, and takes the keys of a map for names of fields. To bless the
/// release accepts this list.
///
/// # Panics
///
/// Panics with one message. The message lists each parked state that would be stranded, why, and what to do; and each
/// phase without a sample or a file.
///
/// # Examples
///
/// ```
/// use fom_durable::testing::check_release;
/// use fom_runtime::prelude::*;
/// use serde::{Deserialize, Serialize};
///
/// #[derive(Serialize, Deserialize)]
/// struct Call {
///     callee: String,
/// }
///
/// #[fom(operation(Call))]
/// enum Route {
///     #[phase(start, to(Ring))]
///     Locate,
///     #[phase(to(Over))]
///     Ring { endpoint: String },
///     #[phase(end)]
///     Over,
/// }
/// # impl RouteTransitions for Call {
/// #     async fn locate(&mut self, _: &mut Cx<'_>) -> Result<RouteAfterLocate, BoxError> {
/// #         Ok(RouteAfterLocate::Ring { endpoint: String::new() })
/// #     }
/// #     async fn ring(&mut self, _: &mut Cx<'_>, _: &mut String) -> Result<(), BoxError> { Ok(()) }
/// # }
///
/// // A test: #[test]
/// fn no_call_is_stranded(dir: &std::path::Path) {
///     let samples = [
///         Route::Locate,
///         Route::Ring { endpoint: "10.0.0.7".into() },
///         Route::Over,
///     ];
///     let call = || Call { callee: "ada".into() };
///     check_release(dir, samples.map(|phase| (call(), phase)));
/// }
/// # let dir = std::env::temp_dir().join(format!("fom-check-release-{}", std::process::id()));
/// # let samples = [Route::Locate, Route::Ring { endpoint: "10.0.0.7".into() }, Route::Over];
/// # let samples = samples.map(|phase| (Call { callee: "ada".into() }, phase));
/// # fom_durable::testing::try_check_release(&dir, samples, true).unwrap();
/// # no_call_is_stranded(&dir);
/// # std::fs::remove_dir_all(dir).unwrap();
/// ```
#[track_caller]
pub fn check_release<O: Persistent>(
    dir: impl AsRef<Path>,
    samples: impl IntoIterator<Item = (O, O::Phase)>,
) {
    let bless = env::var_os(BLESS).is_some_and(|value| !value.is_empty() && value != "0");
    if let Err(error) = try_check_release(dir, samples, bless) {
        panic!("{error}");
    }
}

/// As [`check_release`], but returns the failure as a value. `bless` says whether missing files are written.
///
/// # Errors
///
/// Returns a [`ReleaseError`] with all findings, and with the errors of the directory and its files.
pub fn try_check_release<O: Persistent>(
    dir: impl AsRef<Path>,
    samples: impl IntoIterator<Item = (O, O::Phase)>,
    bless: bool,
) -> Result<(), Box<ReleaseError>> {
    let mut found = Box::new(ReleaseError::new(O::GRAPH, dir.as_ref()));
    found.read::<O>();
    // The next release must not be checked against a release that strands something.
    let bless = bless && found.stranded.is_empty() && found.unreadable.is_empty();
    found.write(samples, bless);
    if bless {
        found.read::<O>();
    }
    if found.is_nothing() {
        Ok(())
    } else {
        Err(found)
    }
}

/// The effects of a release on parked foms.
#[derive(Debug)]
#[non_exhaustive]
pub struct ReleaseError {
    /// The machine.
    pub machine: &'static str,
    /// The version of the machine in this release.
    pub version: u32,
    /// The directory with the files.
    pub dir: PathBuf,
    /// The parked states that the release cannot read.
    pub stranded: Vec<Stranded>,
    /// The number of files that were read, with the stranded ones.
    pub read: usize,
    /// Phases of this release without a file.
    pub missing: Vec<&'static str>,
    /// Phases of this release without a sample.
    pub unsampled: Vec<&'static str>,
    /// Samples that cannot be saved, by phase.
    pub unsaved: Vec<(&'static str, SnapshotError)>,
    /// Files, or the directory, that cannot be read or written.
    pub unreadable: Vec<(PathBuf, io::Error)>,
    /// What the release before cannot read of this release, as long as this release has no files.
    pub one_way: Vec<OneWay>,
}

/// A parked state that a release cannot read.
#[derive(Debug)]
#[non_exhaustive]
pub struct Stranded {
    /// The name of the file.
    pub file: String,
    /// The version that saved the state, if it can be read.
    pub version: Option<u32>,
    /// The phase of the state, if it can be read.
    pub phase: Option<String>,
    /// The reason.
    pub reason: RestoreError,
}

impl ReleaseError {
    fn new(graph: &'static Graph, dir: &Path) -> Self {
        Self {
            machine: graph.name(),
            version: graph.version(),
            dir: dir.to_owned(),
            stranded: Vec::new(),
            read: 0,
            missing: Vec::new(),
            unsampled: graph.phases().iter().map(|phase| phase.name()).collect(),
            unsaved: Vec::new(),
            unreadable: Vec::new(),
            one_way: Vec::new(),
        }
    }

    fn is_nothing(&self) -> bool {
        self.missing.is_empty() && self.is_readable()
    }

    /// Returns whether the release lacks its files, and nothing else.
    fn is_unblessed(&self) -> bool {
        !self.missing.is_empty() && self.is_readable()
    }

    fn is_readable(&self) -> bool {
        self.stranded.is_empty()
            && self.unsampled.is_empty()
            && self.unsaved.is_empty()
            && self.unreadable.is_empty()
    }

    /// Goes through the samples: each has a file, or gets one.
    fn write<O: Persistent>(
        &mut self,
        samples: impl IntoIterator<Item = (O, O::Phase)>,
        bless: bool,
    ) {
        let (mut today, mut own) = (Vec::new(), BTreeSet::new());
        for (operation, phase) in samples {
            let name = O::GRAPH.phases()[O::index(O::kind(&phase))].name();
            self.unsampled.retain(|phase| *phase != name);
            let snapshot = match operation.snapshot(&phase) {
                Ok(snapshot) => snapshot,
                Err(error) => {
                    self.unsaved.push((name, error));
                    continue;
                }
            };
            let Ok(saved) = snapshot.saved() else {
                continue;
            };
            let path = self.dir.join(self.file_of(O::GRAPH, &saved));
            today.push(saved);
            own.insert(path.clone());
            if path.exists() {
                continue;
            }
            if !bless {
                if !self.missing.contains(&name) {
                    self.missing.push(name);
                }
                continue;
            }
            let written =
                fs::create_dir_all(&self.dir).and_then(|()| fs::write(&path, snapshot.as_bytes()));
            if let Err(error) = written {
                self.unreadable.push((path, error));
            }
        }
        if self.is_unblessed() {
            let files = snapshots_in(&self.dir).unwrap_or_default();
            let bytes = files
                .difference(&own)
                .filter_map(|path| fs::read(path).ok());
            let snapshots = bytes.filter_map(|bytes| Snapshot::from_bytes(bytes).ok());
            let earlier: Vec<_> = snapshots.filter_map(|one| one.saved().ok()).collect();
            self.one_way = one_way(&today, &earlier);
        }
    }

    /// Returns the name of the file of a state of this release. All names in the state are part of it.
    fn file_of(&self, graph: &Graph, saved: &Saved) -> String {
        let fingerprint = Schema::of(graph).fingerprint() ^ operation_fingerprint(saved);
        let (machine, version, phase) = (self.machine, self.version, saved.phase());
        format!("{machine}.v{version}.{phase}.{fingerprint:016x}.fom")
    }

    /// Reads every file in the directory.
    fn read<O: Persistent>(&mut self) {
        self.read = 0;
        let files = match snapshots_in(&self.dir) {
            Ok(files) => files,
            // Then all files are missing, and each phase is reported as missing.
            Err(error) if error.kind() == io::ErrorKind::NotFound => return,
            Err(error) => {
                self.unreadable.push((self.dir.clone(), error));
                return;
            }
        };
        for path in files {
            let bytes = match fs::read(&path) {
                Ok(bytes) => bytes,
                Err(error) => {
                    self.unreadable.push((path, error));
                    continue;
                }
            };
            self.read += 1;
            let snapshot = Snapshot::from_bytes(bytes);
            let restored = snapshot
                .clone()
                .and_then(|snapshot| O::restore(&snapshot).map(drop));
            if let Err(reason) = restored {
                let snapshot = snapshot.ok();
                let snapshot = snapshot.as_ref();
                let name = path.file_name().unwrap_or_default();
                self.stranded.push(Stranded {
                    file: name.to_string_lossy().into_owned(),
                    version: snapshot.and_then(|snapshot| snapshot.version().ok()),
                    phase: snapshot.and_then(|snapshot| snapshot.phase().ok()),
                    reason,
                });
            }
        }
    }
}

/// Returns the files that are snapshots by their names, in order.
fn snapshots_in(dir: &Path) -> io::Result<BTreeSet<PathBuf>> {
    let mut files = BTreeSet::new();
    for entry in fs::read_dir(dir)? {
        let path = entry?.path();
        if path.extension().is_some_and(|extension| extension == "fom") {
            files.insert(path);
        }
    }
    Ok(files)
}

impl ReleaseError {
    /// Writes the parked states that this release cannot read.
    fn write_stranded(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.stranded.is_empty() {
            return Ok(());
        }
        let (stranded, read, dir) = (self.stranded.len(), self.read, self.dir.display());
        write!(
            f,
            "\n\n{stranded} of {read} parked states in {dir} would be stranded:"
        )?;
        for stranded in &self.stranded {
            write!(f, "\n\n  {}", stranded.file)?;
            if let (Some(version), Some(phase)) = (stranded.version, &stranded.phase) {
                write!(f, "\n    saved by version {version} in phase `{phase}`")?;
            }
            write!(f, "\n    {}", stranded.reason)?;
        }
        write!(
            f,
            "\n\n  Change the machine so that it reads them; delete a file only when nothing can be parked in it any more."
        )
    }

    /// Writes the phases of which the samples or the directory have no state.
    fn write_phases(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for phase in &self.unsampled {
            write!(
                f,
                "\n\nphase `{phase}` has no sample; add one to the samples, so that the next release is held to it"
            )?;
        }
        for (phase, error) in &self.unsaved {
            write!(f, "\n\nthe sample of phase `{phase}` is no good: {error}")?;
        }
        if self.missing.is_empty() {
            return Ok(());
        }
        let phases = self.missing.iter().map(|name| format!("`{name}`"));
        let (phases, dir) = (phases.collect::<Vec<_>>().join(", "), self.dir.display());
        let when = match self.stranded.is_empty() {
            true => "",
            false => "when nothing is stranded any more, ",
        };
        write!(
            f,
            "\n\n{dir} has no file of this release in phase {phases}; {when}run this test once with {BLESS}=1, and keep what it \
             writes"
        )
    }
}

impl fmt::Display for ReleaseError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (machine, version) = (self.machine, self.version);
        match self.is_unblessed() {
            true => write!(f, "version {version} of `{machine}` is not blessed yet")?,
            false => write!(f, "version {version} of `{machine}` cannot be released")?,
        }
        self.write_stranded(f)?;
        self.write_phases(f)?;
        if !self.one_way.is_empty() {
            write!(
                f,
                "\n\nAfter a rollback, the release before would leave in quarantine what this release has written:\n"
            )?;
        }
        for one in &self.one_way {
            write!(f, "\n  {one}")?;
        }
        for (path, error) in &self.unreadable {
            write!(f, "\n\n{}: {error}", path.display())?;
        }
        Ok(())
    }
}

impl std::error::Error for ReleaseError {}
