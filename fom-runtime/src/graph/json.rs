//! JSON, written by hand.

use std::fmt::Write as _;

use crate::serial::Quoted;

/// Writes indented JSON.
#[derive(Default)]
pub(super) struct Json {
    pub(super) out: String,
    depth: usize,
    /// Whether this level has an item already.
    more: bool,
}

impl Json {
    pub(super) fn item(&mut self) {
        if self.more {
            self.out.push(',');
        }
        self.out.push('\n');
        self.out.extend(std::iter::repeat_n("  ", self.depth));
        self.more = true;
    }

    pub(super) fn key(&mut self, key: &str) {
        self.item();
        self.string(key);
        self.out.push_str(": ");
    }

    pub(super) fn pair(&mut self, key: &str, value: &str) {
        self.key(key);
        self.string(value);
    }

    pub(super) fn open(&mut self, bracket: char) {
        self.out.push(bracket);
        self.depth += 1;
        self.more = false;
    }

    pub(super) fn close(&mut self, bracket: char) {
        self.depth -= 1;
        if self.more {
            self.out.push('\n');
            self.out.extend(std::iter::repeat_n("  ", self.depth));
        }
        self.out.push(bracket);
        self.more = true;
    }

    pub(super) fn strings<'a>(&mut self, values: impl IntoIterator<Item = &'a str>) {
        self.open('[');
        for value in values {
            self.item();
            self.string(value);
        }
        self.close(']');
    }

    pub(super) fn raw(&mut self, text: &str) {
        self.out.push_str(text);
    }

    pub(super) fn string(&mut self, text: &str) {
        // Writing to a string cannot fail.
        let _ = write!(self.out, "{}", Quoted(text));
    }
}
