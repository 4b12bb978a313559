//! Where the results, the messages and the progress go.

use std::io::{self, IsTerminal as _, Write};

use indicatif::{ProgressBar, ProgressDrawTarget, ProgressStyle};
use serde::Serialize;

use crate::failure::Failure;

/// The output of one command.
pub(crate) struct Output<'a> {
    out: &'a mut dyn Write,
    errors: &'a mut dyn Write,
    json: bool,
    /// Whether the result comes after the work, so that progress does not mix with it.
    result_is_last: bool,
    progress: ProgressBar,
}

impl<'a> Output<'a> {
    pub(crate) fn new(out: &'a mut dyn Write, errors: &'a mut dyn Write, json: bool) -> Self {
        Self {
            out,
            errors,
            json,
            result_is_last: false,
            progress: ProgressBar::hidden(),
        }
    }

    /// Notes that the command prints its result after the work. So progress can be shown beside a result on a terminal.
    pub(crate) fn result_comes_last(&mut self) {
        self.result_is_last = true;
    }

    pub(crate) fn is_json(&self) -> bool {
        self.json
    }

    /// Shows how many of these records are done, if a user watches, and nothing else moves the terminal.
    pub(crate) fn expect(&mut self, records: u64) {
        self.show(
            Some(records),
            "{wide_bar} {pos} of {len} records, {eta} left",
        );
    }

    /// Shows the bytes of a download, if a user watches.
    pub(crate) fn expect_bytes(&mut self) {
        self.show(None, "{spinner} {bytes} received");
    }

    /// Shows that the command works, if a user watches.
    pub(crate) fn expect_steps(&mut self, what: &str) {
        self.show(
            None,
            &format!("{{spinner}} {what}, {{pos}} steps, {{elapsed}}"),
        );
    }

    fn show(&mut self, steps: Option<u64>, template: &str) {
        self.progress.finish_and_clear();
        if !io::stderr().is_terminal() || (io::stdout().is_terminal() && !self.result_is_last) {
            return;
        }
        let target = ProgressDrawTarget::stderr_with_hz(10);
        self.progress = ProgressBar::with_draw_target(steps, target);
        if let Ok(style) = ProgressStyle::with_template(template) {
            self.progress.set_style(style);
        }
    }

    /// Notes that a record or a step is done.
    pub(crate) fn advance(&self) {
        self.progress.inc(1);
    }

    /// Notes that so many bytes are done.
    pub(crate) fn advance_by(&self, bytes: u64) {
        self.progress.inc(bytes);
    }

    /// Ends what is shown of the progress.
    pub(crate) fn end_progress(&self) {
        self.progress.finish_and_clear();
    }

    /// Prints a line of the result. Control characters of a journal never reach the terminal.
    pub(crate) fn line(&mut self, text: &str) -> io::Result<()> {
        writeln!(self.out, "{}", visible(text))
    }

    /// Prints an object of the result in one line.
    pub(crate) fn object(&mut self, value: &impl Serialize) -> io::Result<()> {
        serde_json::to_writer(Visible::new(&mut *self.out), value)?;
        self.out.write_all(b"\n")
    }

    /// Prints a value below its name, over several lines.
    pub(crate) fn below(&mut self, name: &str, value: &impl Serialize) -> io::Result<()> {
        self.line(name)?;
        serde_json::to_writer_pretty(Visible::new(&mut *self.out), value)?;
        self.out.write_all(b"\n")
    }

    /// Prints a message beside the result.
    pub(crate) fn note(&mut self, text: &str) {
        let errors = &mut self.errors;
        self.progress.suspend(|| {
            let _ = writeln!(errors, "fom: {}", visible(text));
        });
    }

    pub(crate) fn flush(&mut self) -> io::Result<()> {
        self.progress.finish_and_clear();
        self.out.flush()
    }

    /// Prints why the command failed. Returns the exit status.
    pub(crate) fn fail(&mut self, failure: &Failure) -> u8 {
        match failure {
            Failure::Output(error) if error.kind() == io::ErrorKind::BrokenPipe => return 0,
            Failure::Output(_) => {}
            _ => drop(self.flush()),
        }
        self.note(&failure.to_string());
        failure.status()
    }
}

/// Returns the text with escapes in place of control characters.
fn visible(text: &str) -> String {
    let mut out = String::with_capacity(text.len());
    for letter in text.chars() {
        match letter.is_control() {
            true => out.extend(letter.escape_default()),
            false => out.push(letter),
        }
    }
    out
}

/// Writes JSON with escapes in place of the control characters that JSON allows in a text: U+007F to U+009F.
struct Visible<W> {
    to: W,
    /// Whether the first byte of such a character is held back.
    is_held: bool,
}

impl<W: Write> Visible<W> {
    /// The first byte of U+0080 to U+00BF.
    const FIRST: u8 = 0xc2;

    fn new(to: W) -> Self {
        Self { to, is_held: false }
    }
}

impl<W: Write> Write for Visible<W> {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        if !self.is_held && bytes.iter().all(|byte| !matches!(byte, 0x7f | 0xc2)) {
            self.to.write_all(bytes)?;
            return Ok(bytes.len());
        }
        for byte in bytes {
            match (std::mem::take(&mut self.is_held), byte) {
                (true, 0x80..=0x9f) => write!(self.to, "\\u{byte:04x}")?,
                (true, byte) => self.to.write_all(&[Self::FIRST, *byte])?,
                (false, &Self::FIRST) => self.is_held = true,
                (false, 0x7f) => self.to.write_all(b"\\u007f")?,
                (false, byte) => self.to.write_all(&[*byte])?,
            }
        }
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        self.to.flush()
    }
}
