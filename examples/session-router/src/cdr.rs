//! Call detail records: a file with one line for each call.

use std::fs::{File, OpenOptions};
use std::io::{self, Write as _};
use std::path::Path;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use serde::{Deserialize, Serialize};

use crate::call::Outcome;

/// The record of a call.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct Record {
    /// The time at which the call began.
    pub began: SystemTime,
    /// Call-ID.
    pub call_id: String,
    /// The URI of the caller.
    pub from: String,
    /// The URI of the called user.
    pub to: String,
    /// The time until a place answered.
    pub setup: Option<Duration>,
    /// The time that the two sides talked.
    pub talk: Option<Duration>,
    /// The number of places that rang.
    pub forks: usize,
}

/// The file of the records. Many threads may write at once: each line is one write to a file that is only appended to.
#[derive(Debug)]
pub struct Records(Option<File>);

impl Records {
    /// Opens the file, and creates it if there is none. Without a path, no record is kept.
    ///
    /// # Errors
    ///
    /// Fails if the file cannot be written.
    pub fn open(path: Option<&Path>) -> io::Result<Records> {
        let open = |path| OpenOptions::new().create(true).append(true).open(path);
        path.map(open).transpose().map(Records)
    }

    /// Writes one line. This blocks for as long as the disk likes, so only code between enter-block and leave-block
    /// calls it.
    pub(crate) fn write(&self, record: &Record, outcome: Outcome) -> io::Result<()> {
        let Some(mut file) = self.0.as_ref() else {
            return Ok(());
        };
        file.write_all(record.line(outcome).as_bytes())
    }
}

impl Record {
    /// One line of JSON.
    fn line(&self, outcome: Outcome) -> String {
        let began = self
            .began
            .duration_since(UNIX_EPOCH)
            .unwrap_or_default()
            .as_millis();
        let micros = |time: Option<Duration>| {
            time.map_or("null".to_owned(), |time| time.as_micros().to_string())
        };
        format!(
            "{{\"began_ms\":{began},\"call_id\":{},\"from\":{},\"to\":{},\"outcome\":\"{outcome}\",\"status\":{},\
             \"setup_us\":{},\"talk_us\":{},\"forks\":{}}}\n",
            quoted(&self.call_id),
            quoted(&self.from),
            quoted(&self.to),
            outcome.status(),
            micros(self.setup),
            micros(self.talk),
            self.forks,
        )
    }
}

/// Quotes a JSON string. Its text comes from a stranger.
fn quoted(text: &str) -> String {
    let mut quoted = String::with_capacity(text.len() + 2);
    quoted.push('"');
    for c in text.chars() {
        match c {
            '"' | '\\' => quoted.extend(['\\', c]),
            c if c.is_control() => quoted.push_str(&format!("\\u{:04x}", c as u32)),
            c => quoted.push(c),
        }
    }
    quoted.push('"');
    quoted
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_line_is_json_whatever_the_names_are() {
        let record = Record {
            began: UNIX_EPOCH + Duration::from_secs(1),
            call_id: "a\"b\\c\td".to_owned(),
            from: "a".to_owned(),
            to: "b".to_owned(),
            setup: Some(Duration::from_millis(2)),
            talk: None,
            forks: 2,
        };
        assert_eq!(
            record.line(Outcome::Rejected(486)),
            "{\"began_ms\":1000,\"call_id\":\"a\\\"b\\\\c\\u0009d\",\"from\":\"a\",\"to\":\"b\",\
             \"outcome\":\"rejected\",\"status\":486,\"setup_us\":2000,\"talk_us\":null,\"forks\":2}\n"
        );
    }
}
