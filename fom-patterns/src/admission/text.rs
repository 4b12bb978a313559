//! A policy from a line of text, for configuration files and commands.

use std::{fmt, str::FromStr, time::Duration};

use crate::admission::{
    ClientRoundRobin, ConfigError, DeadlineFirst, Delay, Fifo, Policy, Priorities, Rate, Share,
    SortedBatches, TokenBuckets,
};

/// The error of a line that does not describe a policy.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum PolicyTextError {
    /// The first word names no policy.
    #[error("there is no policy `{0}`; use fifo, crr, tbf, edf, priorities, batches or delay")]
    Unknown(String),
    /// A setting that the policy does not have, or that the line has twice.
    #[error("`{policy}` does not take `{setting}`; it takes {takes}, each once")]
    Setting {
        /// The policy.
        policy: &'static str,
        /// The settings that the policy takes.
        takes: &'static str,
        /// The setting in the line.
        setting: String,
    },
    /// A required setting is missing.
    #[error("`{policy}` needs `{setting}=..`")]
    Missing {
        /// The policy.
        policy: &'static str,
        /// The setting.
        setting: &'static str,
    },
    /// A value that cannot be read.
    #[error("`{setting}={value}` must be {must}")]
    Value {
        /// The setting.
        setting: &'static str,
        /// The value in the line.
        value: String,
        /// What the value must be.
        must: &'static str,
    },
    /// A value that the policy does not allow.
    #[error(transparent)]
    Config(#[from] ConfigError),
}

/// The policies, each with the settings that it takes.
const POLICIES: [(&str, &str); 7] = [
    ("fifo", ""),
    ("crr", "quantum"),
    ("tbf", "rate, burst, per"),
    ("edf", "default"),
    ("priorities", "most"),
    ("batches", "quantum"),
    ("delay", "least, most, percent, seed"),
];

/// The words after the first word, as settings.
struct Settings<'a> {
    policy: &'static str,
    takes: &'static str,
    words: Vec<(&'a str, &'a str)>,
}

impl<'a> Settings<'a> {
    fn new(
        policy: &'static str,
        takes: &'static str,
        words: impl Iterator<Item = &'a str>,
    ) -> Result<Self, PolicyTextError> {
        let mut settings = Self {
            policy,
            takes,
            words: Vec::new(),
        };
        for word in words {
            match word.split_once('=') {
                Some((name, value))
                    if takes.split(", ").any(|known| known == name)
                        && settings.find(name).is_none() =>
                {
                    settings.words.push((name, value));
                }
                _ => {
                    return Err(PolicyTextError::Setting {
                        policy,
                        takes: if takes.is_empty() { "nothing" } else { takes },
                        setting: word.to_owned(),
                    });
                }
            }
        }
        Ok(settings)
    }

    fn find(&self, name: &str) -> Option<&'a str> {
        let found = self.words.iter().find(|(known, _)| *known == name);
        found.map(|(_, value)| *value)
    }

    fn need(&self, setting: &'static str) -> Result<&'a str, PolicyTextError> {
        debug_assert!(self.takes.contains(setting));
        self.find(setting).ok_or(PolicyTextError::Missing {
            policy: self.policy,
            setting,
        })
    }
}

fn number<N: FromStr>(setting: &'static str, value: &str) -> Result<N, PolicyTextError> {
    value.parse().map_err(|_| PolicyTextError::Value {
        setting,
        value: value.to_owned(),
        must: "a whole number",
    })
}

fn time(setting: &'static str, value: &str) -> Result<Duration, PolicyTextError> {
    let split = value.find(|letter: char| !letter.is_ascii_digit());
    let (count, unit) = value.split_at(split.unwrap_or(value.len()));
    let nanos: Option<u64> = match unit {
        "us" | "µs" => Some(1_000),
        "ms" => Some(1_000_000),
        "s" => Some(1_000_000_000),
        "min" => Some(60_000_000_000),
        _ => None,
    };
    let count: Option<u64> = count.parse().ok();
    let time = count
        .zip(nanos)
        .and_then(|(count, unit)| count.checked_mul(unit));
    time.map(Duration::from_nanos)
        .ok_or_else(|| PolicyTextError::Value {
            setting,
            value: value.to_owned(),
            must: "a time such as `500ms`, `2s` or `1min`",
        })
}

/// A time as the parser reads it, to a microsecond.
pub(super) struct Shown(pub(super) Duration);

impl fmt::Display for Shown {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let micros = self.0.as_micros();
        if micros.is_multiple_of(1_000_000) {
            write!(f, "{}s", micros / 1_000_000)
        } else if micros.is_multiple_of(1000) {
            write!(f, "{}ms", micros / 1000)
        } else {
            write!(f, "{micros}us")
        }
    }
}

fn rate(value: &str) -> Result<Rate, PolicyTextError> {
    Ok(match value.split_once('/') {
        None => Rate::per_second(number("rate", value)?)?,
        Some((tokens, of)) => Rate::new(number("rate", tokens)?, time("rate", of)?)?,
    })
}

/// Parses a built-in policy: its name, then its settings.
///
/// | line | policy |
/// | --- | --- |
/// | `fifo` | [`Fifo`] |
/// | `crr quantum=8` | [`ClientRoundRobin`] |
/// | `tbf rate=100 burst=10 per=client` | [`TokenBuckets`]; the rate can be `5/1min`, too; `per` is `client`, `class` or `all`; `burst` and `per` are optional |
/// | `edf default=1s` | [`DeadlineFirst`] |
/// | `priorities most=16` | [`Priorities`] |
/// | `batches quantum=256` | [`SortedBatches`] |
/// | `delay least=5ms most=2s percent=10 seed=7` | [`Delay`]; `seed` is optional |
///
/// ```
/// use fom_patterns::admission::Policy;
///
/// let policy: Box<dyn Policy> = "tbf rate=100 burst=10".parse()?;
/// assert_eq!(policy.name(), "tbf rate=100 burst=10 per=client");
/// let wrong = "tbf rate=lots".parse::<Box<dyn Policy>>().map(|_| ());
/// assert_eq!(wrong.unwrap_err().to_string(), "`rate=lots` must be a whole number");
/// # Ok::<(), fom_patterns::admission::PolicyTextError>(())
/// ```
impl FromStr for Box<dyn Policy> {
    type Err = PolicyTextError;

    fn from_str(line: &str) -> Result<Self, PolicyTextError> {
        let mut words = line.split_whitespace();
        let name = words.next().unwrap_or_default();
        let Some((policy, takes)) = POLICIES.into_iter().find(|(policy, _)| *policy == name) else {
            return Err(PolicyTextError::Unknown(name.to_owned()));
        };
        let settings = Settings::new(policy, takes, words)?;
        let count = |setting| number(setting, settings.need(setting)?);
        Ok(match policy {
            "crr" => ClientRoundRobin::new(count("quantum")?)?.into(),
            "batches" => SortedBatches::new(count("quantum")?)?.into(),
            "priorities" => Priorities::new(count("most")?)?.into(),
            "edf" => DeadlineFirst::new(time("default", settings.need("default")?)?).into(),
            "delay" => {
                let least = time("least", settings.need("least")?)?;
                let most = time("most", settings.need("most")?)?;
                let percent = number("percent", settings.need("percent")?)?;
                let seed = settings.find("seed");
                let seed = seed.map_or(Ok(0), |seed| number("seed", seed))?;
                Delay::new(least, most, percent)?.seed(seed).into()
            }
            "tbf" => {
                let mut rate = rate(settings.need("rate")?)?;
                if let Some(burst) = settings.find("burst") {
                    rate = rate.burst(number("burst", burst)?)?;
                }
                let share = match settings.find("per") {
                    None | Some("client") => Share::Client,
                    Some("class") => Share::Class,
                    Some("all") => Share::All,
                    Some(value) => {
                        return Err(PolicyTextError::Value {
                            setting: "per",
                            value: value.to_owned(),
                            must: "`client`, `class` or `all`",
                        });
                    }
                };
                TokenBuckets::new(rate, share).into()
            }
            _ => Fifo::new().into(),
        })
    }
}
