//! `within = ".."`: a duration, or `adaptive` with its floor and its ceiling.

use super::duration::{nanos, total};
use crate::diag::nearest;

/// The time limit of a phase, in nanoseconds.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Within {
    Fixed(u64),
    Adaptive { floor: u64, ceiling: u64 },
}

/// The default bounds. Linux resends a lost TCP segment after 200 ms at the earliest, and a shorter floor would take
/// that for a failure. After half a minute most people, and most proxies, have gone.
const DEFAULT: Within = Within::Adaptive {
    floor: 250_000_000,
    ceiling: 30_000_000_000,
};

const WORD: &str = "adaptive";
const REMEDY: &str = "write for example `adaptive, 50ms..30s`: 50 ms at least, 30 s at most";

/// Returns the time limit, or what is wrong with the text and the remedy.
pub(crate) fn within(text: &str) -> Result<Within, String> {
    let text = text.trim();
    let letters = text
        .find(|c: char| !c.is_alphabetic())
        .unwrap_or(text.len());
    let (word, rest) = text.split_at(letters);
    if word == WORD {
        let rest = rest.trim_start();
        return match rest.strip_prefix(',') {
            _ if rest.is_empty() => Ok(DEFAULT),
            Some(bounds) => adaptive(bounds.trim()),
            None => Err(format!("`{rest}` does not follow `{WORD}`; {REMEDY}")),
        };
    }
    if let Some(meant) = nearest(word, [WORD]).filter(|_| !word.is_empty()) {
        return Err(format!(
            "`{word}` is not a time limit; did you mean `{meant}`?"
        ));
    }
    if !word.is_empty() {
        return Err(format!(
            "`{word}` is not a time limit; write a duration such as `2s`, or `{WORD}`"
        ));
    }
    if text.contains("..") {
        return Err(format!(
            "only an adaptive time limit has a floor and a ceiling; write `{WORD}, {text}`, or one duration"
        ));
    }
    nanos(text).map(Within::Fixed)
}

fn adaptive(bounds: &str) -> Result<Within, String> {
    let Some((floor, ceiling)) = bounds.split_once("..") else {
        return Err(match bounds {
            "" => format!("nothing follows `{WORD},`; {REMEDY}, or `{WORD}` alone"),
            _ => format!("`{bounds}` is not a range of times; {REMEDY}"),
        });
    };
    for (bound, name) in [(floor, "floor"), (ceiling, "ceiling")] {
        if bound.trim().is_empty() {
            return Err(format!("the {name} is missing; {REMEDY}"));
        }
    }
    let (floor, ceiling) = (total(floor.trim())?, nanos(ceiling.trim())?);
    if floor == 0 {
        return Err(format!(
            "with a floor of 0, every visit would be late; {REMEDY}"
        ));
    }
    if floor > ceiling {
        return Err("the floor is above the ceiling; swap the two".to_owned());
    }
    if floor == ceiling {
        return Err(
            "the floor equals the ceiling, so the limit cannot adapt; write one duration alone, or two different ones"
                .to_owned(),
        );
    }
    Ok(Within::Adaptive { floor, ceiling })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times() {
        assert_eq!(within("2s"), Ok(Within::Fixed(2_000_000_000)));
        assert_eq!(within(" adaptive "), Ok(DEFAULT));
        for text in [
            "adaptive, 50ms..30s",
            "adaptive,50ms..30s",
            "adaptive , 50ms .. 30s",
        ] {
            let (floor, ceiling) = (50_000_000, 30_000_000_000);
            assert_eq!(
                within(text),
                Ok(Within::Adaptive { floor, ceiling }),
                "{text}"
            );
        }
    }

    #[test]
    fn mistakes() {
        for (text, part) in [
            ("adaptive 5s", "`5s` does not follow"),
            ("adaptive5s", "`5s` does not follow"),
            ("adaptive,", "nothing follows"),
            ("adaptive, 5s", "not a range"),
            ("adaptive, ..5s", "floor is missing"),
            ("adaptive, 5s..", "ceiling is missing"),
            ("adaptive, 30s..50ms", "swap"),
            ("adaptive, 5s..5s", "cannot adapt"),
            ("adaptive, 0s..5s", "a floor of 0"),
            ("adaptive, 1..5s", "no unit"),
            ("adaptive, 1s..5s, 3", "not a unit of time"),
            ("adaptive, 1s..=5s", "not a duration"),
            ("Adaptive", "did you mean `adaptive`"),
            ("adaptve, 1s..5s", "did you mean `adaptive`"),
            ("auto", "or `adaptive`"),
            ("50ms..5s", "write `adaptive, 50ms..5s`"),
            ("", "missing"),
            ("2", "no unit"),
        ] {
            let message = within(text).unwrap_err();
            assert!(message.contains(part), "{text}: {message}");
        }
    }
}
