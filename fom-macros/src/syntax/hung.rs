//! `hung = ".."`: a duration, or `never`.

use super::duration::nanos;
use crate::diag::nearest;

/// After which time in the phase a fom counts as hung.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Hung {
    /// In nanoseconds.
    After(u64),
    Never,
}

const WORD: &str = "never";

/// Returns the limit, or what is wrong with the text and the remedy.
pub(crate) fn hung(text: &str) -> Result<Hung, String> {
    let text = text.trim();
    if text == WORD {
        return Ok(Hung::Never);
    }
    let word = text.split(|c: char| !c.is_alphabetic()).next();
    match word.filter(|word| !word.is_empty()) {
        None => nanos(text).map(Hung::After),
        Some(word) if nearest(word, [WORD]).is_some() => Err(format!(
            "`{text}` is not a duration; did you mean `{WORD}`?"
        )),
        Some(_) => Err(format!(
            "`{text}` is not a duration; write for example `5m`, or `{WORD}` if a fom may stay for any time"
        )),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn limits() {
        assert_eq!(hung("5m"), Ok(Hung::After(300_000_000_000)));
        assert_eq!(hung(" never "), Ok(Hung::Never));
    }

    #[test]
    fn mistakes() {
        for (text, part) in [
            ("nevr", "did you mean `never`"),
            ("Never", "did you mean `never`"),
            ("never, 5m", "did you mean `never`"),
            ("off", "or `never`"),
            ("5", "no unit"),
            ("0s", "zero"),
            ("", "missing"),
        ] {
            let message = hung(text).unwrap_err();
            assert!(message.contains(part), "{text}: {message}");
        }
    }
}
