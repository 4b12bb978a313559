//! Counts with callgrind: runs this very program again under it.

use std::{io, path::PathBuf, process::Command};

/// Returns the instructions of one action of `program`: the difference between doing it more often and less often. So
/// the count leaves out the start of the process and of the runtime.
pub(crate) fn slope(program: &str, [few, many]: [u64; 2]) -> io::Result<f64> {
    let difference = count(program, many)? as f64 - count(program, few)? as f64;
    Ok(difference / (many - few) as f64)
}

/// Returns the instructions of a whole run, of all threads.
fn count(program: &str, times: u64) -> io::Result<u64> {
    let name = format!("fom-callgrind-{}-{program}-{times}", std::process::id());
    let out = OutFile(std::env::temp_dir().join(name));
    let run = Command::new("valgrind")
        .args(["--tool=callgrind", "--quiet"])
        .arg(format!("--callgrind-out-file={}", out.0.display()))
        .arg(std::env::current_exe()?)
        .args(["run", program, &times.to_string()])
        .output()
        .map_err(|error| io::Error::new(error.kind(), format!("valgrind: {error}")))?;
    if !run.status.success() {
        let said = String::from_utf8_lossy(&run.stderr);
        return Err(io::Error::other(format!(
            "`{program} {times}` under valgrind: {}\n{said}",
            run.status
        )));
    }
    let text = std::fs::read_to_string(&out.0)?;
    total(&text).ok_or_else(|| io::Error::other(format!("no totals in {}", out.0.display())))
}

/// Reads `totals: N` at the end of callgrind's file, or `summary: N` if the process ended early.
fn total(text: &str) -> Option<u64> {
    let lines = text.lines().rev();
    lines
        .filter_map(|line| {
            line.strip_prefix("totals:")
                .or_else(|| line.strip_prefix("summary:"))
        })
        .find_map(|count| count.trim().parse().ok())
}

/// Removes the file on drop.
struct OutFile(PathBuf);

impl Drop for OutFile {
    fn drop(&mut self) {
        // The file is missing if valgrind failed before writing it.
        let _ = std::fs::remove_file(&self.0);
    }
}
