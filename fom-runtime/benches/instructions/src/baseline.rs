//! The recorded counts: a text file that people read, too.

use std::{fmt::Write as _, io, path::Path};

use crate::measures::{Counted, Measure};

/// The largest relative difference from the recorded count.
///
/// Two runs of one build differ by less than 0.2 %. Processors for which glibc picks another `memcpy` differ by 0.2 %.
/// Unrelated lines of code change what is inlined, and with it a count by 1 or 2 %. A larger difference is a change to
/// look at; another release of the compiler or of glibc can also cause one.
const TOLERANCE: f64 = 0.03;
/// The same in instructions: in a step that takes 16, one instruction is 6 %.
const LEAST: f64 = 1.5;

const HEAD: &str = "\
# Instructions by callgrind, release build of this package (thin LTO, one codegen unit), one locality, not pinned, no
# listener, panics fenced, registry on. Compared by `cargo run --release -- --check`, written by `-- --bless`.
# The clock passes by 1 us at each look, and a look counts as little; the kernel's instructions are not counted.
";

/// Returns the file's text for these counts.
pub fn write(counts: &[(&Measure, Counted)]) -> String {
    let mut text = format!("{HEAD}# {}\n#\n", env!("FOM_RUSTC"));
    // Writing to a string cannot fail.
    let _ = writeln!(
        text,
        "# {:<16} {:>9} {:>9} {:>9} {:>9}",
        "name", "fom", "tokio", "limit", "to limit"
    );
    for (measure, counted) in counts {
        let Measure { name, what, .. } = measure;
        let Counted { fom, tokio, limit } = counted;
        let tokio = tokio.map_or_else(|| "-".into(), |tokio| format!("{tokio:.1}"));
        // A limit observes nothing.
        let (limit, ratio) = match limit {
            0.0 => ("-".into(), "-".into()),
            _ => (format!("{limit:.1}"), format!("{:.2}", fom / limit)),
        };
        let _ = writeln!(
            text,
            "{name:<18} {fom:>9.1} {tokio:>9} {limit:>9} {ratio:>9}   {what}"
        );
    }
    text
}

/// Returns a line of text for each count that differs from the file by more than the tolerance; none when no count
/// does.
///
/// # Errors
///
/// Fails if the file cannot be read.
pub fn compare(file: &Path, counts: &[(&Measure, Counted)]) -> io::Result<Vec<String>> {
    let text = std::fs::read_to_string(file)?;
    let recorded = |name: &str| {
        text.lines().find_map(|line| {
            let mut words = line.split_whitespace();
            (words.next()? == name).then(|| words.next()?.parse::<f64>().ok())?
        })
    };
    let mut differ = Vec::new();
    for (measure, counted) in counts {
        let (name, now) = (measure.name, counted.fom);
        match recorded(name) {
            None => differ.push(format!("{name}: {now:.1}, and nothing is recorded")),
            Some(then) if (now - then).abs() > (then * TOLERANCE).max(LEAST) => {
                let percent = (now / then - 1.0) * 100.0;
                let what = measure.what;
                differ.push(format!(
                    "{name}: {now:.1} instead of {then:.1} ({percent:+.1} %): {what}"
                ));
            }
            Some(_) => {}
        }
    }
    if !differ.is_empty() && !text.contains(env!("FOM_RUSTC")) {
        differ.push(format!(
            "it was recorded with another compiler; this is {}",
            env!("FOM_RUSTC")
        ));
    }
    Ok(differ)
}
