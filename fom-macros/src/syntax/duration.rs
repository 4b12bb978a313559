//! Durations such as `"2s"` and `"1m30s"`, and `"3, 50ms..2s"` of a retry.

const REMEDY: &str = "write for example `500ms`, `2s` or `1m30s`";

/// Returns the nanoseconds of a written duration, or what is wrong with it and the remedy.
pub(crate) fn nanos(text: &str) -> Result<u64, String> {
    match total(text)? {
        0 => Err(format!("`{text}` is zero; {REMEDY}, or remove the key")),
        nanos => Ok(nanos),
    }
}

/// As [`nanos`], but also accepts a duration of zero.
pub(super) fn total(text: &str) -> Result<u64, String> {
    let mut rest = text.trim();
    if rest.is_empty() {
        return Err(format!("a duration is missing; {REMEDY}"));
    }
    let mut total: u64 = 0;
    while !rest.is_empty() {
        let digits = rest
            .find(|c: char| !c.is_ascii_digit())
            .unwrap_or(rest.len());
        let (number, after) = rest.split_at(digits);
        if number.is_empty() {
            return Err(format!("`{text}` is not a duration; {REMEDY}"));
        }
        let letters = after
            .find(|c: char| c.is_ascii_digit())
            .unwrap_or(after.len());
        let (unit, after) = after.split_at(letters);
        let unit = unit.trim();
        let scale: u64 = match unit {
            "ns" => 1,
            "us" | "µs" => 1_000,
            "ms" => 1_000_000,
            "s" => 1_000_000_000,
            "m" => 60_000_000_000,
            "h" => 3_600_000_000_000,
            "d" => 86_400_000_000_000,
            "" => {
                return Err(format!(
                    "`{text}` has no unit; write `{number}ms` or `{number}s`"
                ));
            }
            "." => {
                return Err(format!(
                    "`{text}` is not a whole number; write a smaller unit, such as `1500ms`"
                ));
            }
            _ => {
                return Err(format!(
                    "`{unit}` is not a unit of time; use `ns`, `us`, `ms`, `s`, `m`, `h` or `d`"
                ));
            }
        };
        let part = number
            .parse::<u64>()
            .ok()
            .and_then(|number| number.checked_mul(scale));
        total = part
            .and_then(|part| total.checked_add(part))
            .ok_or_else(|| format!("`{text}` is too long; write at most 584 years"))?;
        rest = after;
    }
    Ok(total)
}

/// The number of retries of a phase, and the pauses before them.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Retry {
    pub(crate) times: u32,
    pub(crate) least: u64,
    pub(crate) most: u64,
}

pub(crate) fn retry(text: &str) -> Result<Retry, String> {
    const REMEDY: &str =
        "write for example `3, 50ms..2s`: up to 3 retries, after pauses of 50 ms to 2 s";
    let (times, waits) = text
        .split_once(',')
        .ok_or_else(|| format!("`{text}` is not a retry; {REMEDY}"))?;
    let times: u32 = match times.trim().parse() {
        Ok(0) => return Err("there are 0 retries; remove `retry`".to_owned()),
        Ok(times) => times,
        Err(_) => {
            return Err(format!(
                "`{}` is not a number of retries; {REMEDY}",
                times.trim()
            ));
        }
    };
    let (least, most) = waits
        .split_once("..")
        .ok_or_else(|| format!("`{}` is not a range of pauses; {REMEDY}", waits.trim()))?;
    let (least, most) = (nanos(least)?, nanos(most)?);
    if least > most {
        return Err("the first pause is longer than the longest; swap the two".to_owned());
    }
    Ok(Retry { times, least, most })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn durations() {
        assert_eq!(nanos("2s"), Ok(2_000_000_000));
        assert_eq!(nanos("1m30s"), Ok(90_000_000_000));
        assert_eq!(nanos("1us"), Ok(1_000));
        for wrong in [
            "",
            "2",
            "s",
            "2 parsecs",
            "0s",
            "1.5s",
            "300000d300000d",
            "-1s",
        ] {
            assert!(nanos(wrong).is_err(), "{wrong}");
        }
    }

    #[test]
    fn retries() {
        assert_eq!(
            retry("3, 50ms..2s"),
            Ok(Retry {
                times: 3,
                least: 50_000_000,
                most: 2_000_000_000
            })
        );
        for wrong in [
            "",
            "3",
            "0, 1s..2s",
            "x, 1s..2s",
            "3, 1s",
            "3, 2s..1s",
            "3, 1..2s",
        ] {
            assert!(retry(wrong).is_err(), "{wrong}");
        }
    }
}
