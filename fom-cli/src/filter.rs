//! The filter of foms, in the language of the inspector's page: `type:Call phase:Ring in_phase>30s`.

use serde_json::{Map, Value};

/// The parameters of a filter, by their names in the API.
#[derive(Debug, Default, PartialEq)]
pub(crate) struct Filter(Vec<(&'static str, String)>);

/// The names in a filter, with those in the API.
const NAMES: [(&str, &str); 13] = [
    ("type", "type"),
    ("operation", "type"),
    ("phase", "phase"),
    ("state", "state"),
    ("wait", "wait"),
    ("waits", "wait"),
    ("key", "key"),
    ("locality", "locality"),
    ("loc", "locality"),
    ("attempts", "attempts"),
    ("age", "age"),
    ("in_phase", "in_phase"),
    ("key_prefix", "key_prefix"),
];

/// The units of a time, in seconds. A unit comes before those that are its end.
const UNITS: [(&str, f64); 9] = [
    ("ns", 1e-9),
    ("us", 1e-6),
    ("µs", 1e-6),
    ("ms", 1e-3),
    ("min", 60.0),
    ("s", 1.0),
    ("m", 60.0),
    ("h", 3600.0),
    ("d", 86400.0),
];

impl Filter {
    /// Reads a filter. The error is a message that names the word.
    pub(crate) fn read<'a>(texts: impl IntoIterator<Item = &'a str>) -> Result<Self, String> {
        let mut filter = Self::default();
        for word in texts.into_iter().flat_map(words) {
            let (name, value) = parameter(&word)?;
            if filter.0.iter().any(|(known, _)| *known == name) {
                return Err(format!(
                    "`{word}` says `{name}` a second time; write it once"
                ));
            }
            filter.0.push((name, value));
        }
        Ok(filter)
    }

    /// Returns the filter of a key.
    pub(crate) fn key(text: &str) -> Self {
        Self(vec![("key", text.to_owned())])
    }

    /// Returns the parameters for a query and for the body of an action.
    pub(crate) fn parameters(&self) -> &[(&'static str, String)] {
        &self.0
    }

    pub(crate) fn json(&self) -> Value {
        let fields = self.0.iter();
        let fields = fields.map(|(name, value)| ((*name).to_owned(), value.clone().into()));
        Value::Object(fields.collect::<Map<_, _>>())
    }
}

/// Divides a text at white space outside of quotes, and removes the quotes.
fn words(text: &str) -> Vec<String> {
    let (mut words, mut word, mut is_quoted) = (Vec::new(), String::new(), false);
    for letter in text.chars() {
        match letter {
            '"' => is_quoted = !is_quoted,
            letter if letter.is_whitespace() && !is_quoted => {
                words.push(std::mem::take(&mut word));
            }
            letter => word.push(letter),
        }
    }
    words.push(word);
    words.retain(|word| !word.is_empty());
    words
}

fn parameter(word: &str) -> Result<(&'static str, String), String> {
    let Some(end) = word.find([':', '>', '=']) else {
        // A word alone is the beginning of a key, as on the page.
        return Ok(("key_prefix", word.to_owned()));
    };
    let (name, rest) = word.split_at(end);
    let value = rest
        .strip_prefix(">=")
        .or_else(|| rest.strip_prefix([':', '>', '=']))
        .unwrap_or(rest);
    let known = NAMES.iter().find(|(known, _)| *known == name);
    let (Some((_, name)), false) = (known, value.is_empty()) else {
        return Err(format!(
            "`{word}` is no part of a filter; use type, phase, state, waits, key, locality, in_phase, age or attempts, such as \
             `phase:Ring` or `age>30s`"
        ));
    };
    match (*name, value.strip_suffix('*')) {
        ("in_phase" | "age", _) => Ok((name, seconds(value)?)),
        ("key", Some(prefix)) => Ok(("key_prefix", prefix.to_owned())),
        _ => Ok((name, value.to_owned())),
    }
}

/// Returns a time in seconds, as the API reads it.
fn seconds(text: &str) -> Result<String, String> {
    let wrong = || format!("`{text}` is no time; write for instance 30s, 5min or 2h");
    let unit = UNITS
        .iter()
        .find_map(|(unit, seconds)| Some((text.strip_suffix(unit)?, seconds)));
    let (number, unit) = unit.unwrap_or((text, &1.0));
    let number: f64 = number.trim().parse().map_err(|_| wrong())?;
    let seconds = number * unit;
    if seconds.is_finite() && seconds >= 0.0 {
        return Ok(seconds.to_string());
    }
    Err(wrong())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(text: &str) -> Vec<(&'static str, String)> {
        Filter::read([text]).unwrap().0
    }

    #[test]
    fn a_filter_is_words_with_names() {
        let filter =
            read(r#"type:Call waits:event key:"a b" age>1.5min in_phase>2s attempts>=3 loc:0"#);
        let filter: Vec<_> = filter
            .iter()
            .map(|(name, value)| (*name, &**value))
            .collect();
        assert_eq!(
            filter,
            [
                ("type", "Call"),
                ("wait", "event"),
                ("key", "a b"),
                ("age", "90"),
                ("in_phase", "2"),
                ("attempts", "3"),
                ("locality", "0"),
            ]
        );
        assert_eq!(read("key:b7*"), [("key_prefix", "b7".to_owned())]);
        assert_eq!(read("b7"), [("key_prefix", "b7".to_owned())]);
        assert_eq!(read("key:type:x"), [("key", "type:x".to_owned())]);
        assert_eq!(read(" "), []);
    }

    #[test]
    fn a_wrong_word_is_named() {
        for (text, word) in [
            ("colour:red", "colour:red"),
            ("phase:", "phase:"),
            ("age>soon", "soon"),
            ("age>-1s", "-1s"),
            ("age>inf", "inf"),
            (":x", ":x"),
            ("type:A type:B", "type:B"),
        ] {
            let message = Filter::read([text]).unwrap_err();
            assert!(message.contains(&format!("`{word}`")), "{message}");
        }
    }
}
