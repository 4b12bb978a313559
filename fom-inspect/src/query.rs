//! The query of a request, and the percent-encoding of paths.

use std::{collections::BTreeMap, str::FromStr, time::Duration};

use crate::problem::Problem;

/// The longest time that a parameter can have. It is far above each time of a program.
const LONGEST: f64 = 1e9;

/// The parameters of a request. Each parameter is there once.
#[derive(Debug, Default)]
pub(crate) struct Query(BTreeMap<String, String>);

impl Query {
    /// Reads the query of a request, which may have these parameters.
    pub(crate) fn read(query: Option<&str>, allowed: &[&'static str]) -> Result<Self, Problem> {
        let mut found = BTreeMap::new();
        let pairs = query.unwrap_or_default().split('&');
        for pair in pairs.filter(|pair| !pair.is_empty()) {
            let (name, value) = pair.split_once('=').unwrap_or((pair, ""));
            let (Some(name), Some(value)) = (decode(name, true), decode(value, true)) else {
                let message = format!("`{}` is no percent-encoded UTF-8", short(pair));
                return Err(Problem::query(message));
            };
            if !allowed.contains(&name.as_str()) {
                let message = format!("there is no parameter `{}` here", short(&name));
                return Err(Problem::query(message).allow(allowed.to_vec()));
            }
            if found.insert(name.clone(), value).is_some() {
                let message = format!("the parameter `{name}` is there twice; pass it once");
                return Err(Problem::query(message));
            }
        }
        Ok(Self(found))
    }

    /// Returns parameters that are not in a query, such as those of a filter in a body.
    pub(crate) fn of(parameters: BTreeMap<String, String>) -> Self {
        Self(parameters)
    }

    pub(crate) fn text(&self, name: &str) -> Option<&str> {
        self.0.get(name).map(String::as_str)
    }

    /// Returns a number, if it is there.
    pub(crate) fn number<T: FromStr>(&self, name: &'static str) -> Result<Option<T>, Problem> {
        let read = |text: &str| {
            let wrong = || Problem::query(format!("`{name}` is `{}`, and no number", short(text)));
            text.parse().map_err(|_| wrong())
        };
        self.text(name).map(read).transpose()
    }

    /// Returns a number that is at most `most`, or `default`.
    pub(crate) fn up_to(
        &self,
        name: &'static str,
        most: usize,
        default: usize,
    ) -> Result<usize, Problem> {
        match self.number(name)? {
            None => Ok(default),
            Some(number) if number <= most => Ok(number),
            Some(number) => {
                let message = format!("`{name}` is {number}, and can be at most {most}");
                Err(Problem::query(message).allow([format!("0 to {most}")]))
            }
        }
    }

    /// Returns a time in seconds, if it is there.
    pub(crate) fn seconds(&self, name: &'static str) -> Result<Option<Duration>, Problem> {
        let Some(seconds) = self.number::<f64>(name)? else {
            return Ok(None);
        };
        if (0.0..=LONGEST).contains(&seconds) {
            return Ok(Some(Duration::from_secs_f64(seconds)));
        }
        let message = format!("`{name}` is {seconds}; use seconds from 0 to {LONGEST}");
        Err(Problem::query(message))
    }

    /// Returns one of these choices, if it is there.
    pub(crate) fn choice<T: Copy>(
        &self,
        name: &'static str,
        choices: &[(&'static str, T)],
    ) -> Result<Option<T>, Problem> {
        let Some(text) = self.text(name) else {
            return Ok(None);
        };
        match choices.iter().find(|(choice, _)| *choice == text) {
            Some((_, value)) => Ok(Some(*value)),
            None => {
                let allowed: Vec<_> = choices.iter().map(|(choice, _)| *choice).collect();
                let message = format!(
                    "`{name}` is `{}`; use one of {}",
                    short(text),
                    allowed.join(", ")
                );
                Err(Problem::query(message).allow(allowed))
            }
        }
    }
}

/// Decodes percent-encoded UTF-8. In a query, `+` is a space.
pub(crate) fn decode(text: &str, is_query: bool) -> Option<String> {
    let mut bytes = text.bytes();
    let mut decoded = Vec::with_capacity(text.len());
    while let Some(byte) = bytes.next() {
        decoded.push(match byte {
            b'%' => {
                let digit = |byte: Option<u8>| char::from(byte?).to_digit(16);
                let (high, low) = (digit(bytes.next())?, digit(bytes.next())?);
                u8::try_from(high * 16 + low).ok()?
            }
            b'+' if is_query => b' ',
            byte => byte,
        });
    }
    String::from_utf8(decoded).ok()
}

/// Cuts a text of a client, to repeat it in a message.
pub(crate) fn short(text: &str) -> String {
    let mut chars = text.chars();
    let short: String = chars.by_ref().take(64).collect();
    match chars.next() {
        Some(_) => short + "…",
        None => short,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn percent_encoding_is_undone() {
        assert_eq!(decode("a%2Fb+c", true).as_deref(), Some("a/b c"));
        assert_eq!(decode("a+b%C3%BC", false).as_deref(), Some("a+bü"));
        for wrong in ["%", "%4", "%zz", "%ff", "%+1"] {
            assert_eq!(decode(wrong, true), None, "{wrong}");
        }
    }

    #[test]
    fn what_is_wrong_with_a_query_is_said_with_what_is_allowed() {
        let wrong = |query: &str| {
            let query = Query::read(Some(query), &["limit", "sort", "in_phase"])?;
            query.up_to("limit", 10, 5)?;
            query.seconds("in_phase")?;
            query.choice("sort", &[("age", ()), ("id", ())]).map(drop)
        };
        assert!(wrong("limit=10&sort=id&in_phase=1.5").is_ok());
        assert!(wrong("").is_ok());
        for query in [
            "limit=11",
            "limit=-1",
            "limit=",
            "limit=1&limit=1",
            "sort=size",
            "in_phase=-1",
            "in_phase=inf",
            "in_phase=NaN",
            "other=1",
            "limit=%ff",
        ] {
            assert!(wrong(query).is_err(), "{query}");
        }
    }
}
