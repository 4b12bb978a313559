//! What the threads of a locality do, as the operating system tells it.

/// What a locality does while a run does not end.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Doing {
    /// All its threads sleep.
    Sleeps,
    /// One of its threads runs, or is ready to run.
    Runs,
    /// The operating system does not tell.
    Unknown,
}

/// Looks at the threads of this locality for a twentieth of a second.
///
/// The threads are found by their names. Two runtimes of one program have the same names, so a thread of the other one
/// can hide that this one sleeps.
#[cfg(target_os = "linux")]
pub(crate) fn look(locality: usize) -> Doing {
    const LOOKS: u32 = 10;
    let prefix = format!("fom-{locality}-");
    let mut doing = Doing::Unknown;
    for look in 0..LOOKS {
        if look > 0 {
            std::thread::sleep(std::time::Duration::from_millis(5));
        }
        match states(&prefix) {
            None => return Doing::Unknown,
            Some(states) if states.contains('R') => return Doing::Runs,
            Some(states) if states.is_empty() => return Doing::Unknown,
            Some(_) => doing = Doing::Sleeps,
        }
    }
    doing
}

/// Returns a letter for the state of each thread with a name that begins so.
#[cfg(target_os = "linux")]
fn states(prefix: &str) -> Option<String> {
    use std::fs;
    let mut states = String::new();
    for task in fs::read_dir("/proc/self/task").ok()?.flatten() {
        // A thread that has just ended has no files.
        let Ok(stat) = fs::read_to_string(task.path().join("stat")) else {
            continue;
        };
        let Some((name, state)) = named(&stat) else {
            continue;
        };
        if name.starts_with(prefix) {
            states.push(state);
        }
    }
    Some(states)
}

/// Returns the name and the state in a line such as `17 (fom-0-1) S 1 ..`. A name may have parentheses.
#[cfg(target_os = "linux")]
fn named(stat: &str) -> Option<(&str, char)> {
    let (_, rest) = stat.split_once('(')?;
    let (name, rest) = rest.rsplit_once(')')?;
    Some((name, rest.trim_start().chars().next()?))
}

#[cfg(not(target_os = "linux"))]
pub(crate) fn look(_: usize) -> Doing {
    Doing::Unknown
}

#[cfg(all(test, target_os = "linux"))]
mod tests {
    use super::named;

    #[test]
    fn a_line_has_a_name_and_a_state() {
        assert_eq!(named("17 (fom-0-1) S 1 17"), Some(("fom-0-1", 'S')));
        assert_eq!(named("17 (a) b) R 1"), Some(("a) b", 'R')));
        assert_eq!(named("17"), None);
    }
}
