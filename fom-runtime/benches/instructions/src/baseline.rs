//! The recorded counts: a text file that is read by people, too.

use std::{fmt::Write as _, io, path::Path};

use crate::measures::{Counted, Measure};

/// How far a count may be from the recorded one, as a share of it.
///
/// Two runs of one build differ by less than 0.1 %, and so do processors, for which glibc picks another `memcpy`: by
/// 0.2 %. Unrelated lines of code move what is inlined, and with it a count by 1 or 2 %. More is a change that
/// somebody should look at; another release of the compiler or of glibc can be one, too.
const TOLERANCE: f64 = 0.03;
/// And as instructions: of a step that takes 16, one is 6 %.
const LEAST: f64 = 1.5;

const HEAD: &str = "\
# Instructions by callgrind, release build of this package (thin LTO, one codegen unit), one locality, not pinned, no
# listener, panics fenced, registry on. Compared by `cargo run --release -- --check`, written by `-- --bless`.
# Reads of the clock are system calls under callgrind and count as little; the kernel's instructions are not counted.
";

/// The file's text for these counts.
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
        let ratio = fom / limit;
        let _ = writeln!(
            text,
            "{name:<18} {fom:>9.1} {tokio:>9} {limit:>9.1} {ratio:>9.2}   {what}"
        );
    }
    text
}

/// What differs from the file by more than the tolerance, as lines for people; none when nothing does.
///
/// # Errors
///
/// When the file cannot be read.
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
