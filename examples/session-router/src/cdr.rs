//! Call detail records: one line a call, in a file.

use std::fs::{File, OpenOptions};
use std::io::{self, Write as _};
use std::path::Path;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use serde::{Deserialize, Serialize};

use crate::call::Outcome;

/// What is remembered of a call.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct Record {
    /// When it began.
    pub began: SystemTime,
    /// Call-ID.
    pub call_id: String,
    /// Who called.
    pub from: String,
    /// Who was called.
    pub to: String,
    /// How long it took until somebody answered.
    pub setup: Option<Duration>,
    /// How long they talked.
    pub talk: Option<Duration>,
    /// How many places rang.
    pub forks: usize,
}

/// The file that records are written to. Many threads may write at once: every line is one write to a file
/// that is only appended to.
#[derive(Debug)]
pub struct Records(Option<File>);

impl Records {
    /// Opens the file, and makes it where there is none. Without a path, nothing is kept.
    ///
    /// # Errors
    ///
    /// The file cannot be written.
    pub fn open(path: Option<&Path>) -> io::Result<Records> {
        let open = |path| OpenOptions::new().create(true).append(true).open(path);
        path.map(open).transpose().map(Records)
    }

    /// Writes one line. This blocks, for as long as the disk likes: it is called between enter-block and
    /// leave-block only.
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

/// A JSON string: what is in it was written by a stranger.
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
