//! Why a command fails, and its exit status.

use std::{fmt, io};

use fom_durable::journal::JournalError;

/// Something was not found, was refused, or is damaged.
pub(crate) const FAILED: u8 = 1;
/// The command line has a mistake.
pub(crate) const USAGE: u8 = 2;
/// No inspector answers.
pub(crate) const AWAY: u8 = 3;

/// Why a command does not go on.
#[derive(Debug)]
pub(crate) enum Failure {
    /// A message for the user.
    Message(String),
    /// The command line has a mistake that only the command or the program finds.
    Usage(String),
    /// No inspector answers at the address.
    Away(String),
    /// The program refuses the request.
    Refused {
        /// The code in the API.
        code: String,
        /// The message of the program, with the remedy.
        message: String,
    },
    /// The output cannot be written. A closed pipe is no failure: its reader has read enough.
    Output(io::Error),
}

impl Failure {
    pub(crate) fn new(message: impl Into<String>) -> Self {
        Self::Message(message.into())
    }

    pub(crate) fn usage(message: impl Into<String>) -> Self {
        Self::Usage(message.into())
    }

    /// Returns the exit status.
    pub(crate) fn status(&self) -> u8 {
        match self {
            Self::Usage(_) => USAGE,
            Self::Away(_) => AWAY,
            // The program could not read what the user wrote.
            Self::Refused { code, .. } if code == "query" || code == "body" => USAGE,
            Self::Message(_) | Self::Refused { .. } | Self::Output(_) => FAILED,
        }
    }
}

impl From<io::Error> for Failure {
    fn from(error: io::Error) -> Self {
        Self::Output(error)
    }
}

impl From<JournalError> for Failure {
    fn from(error: JournalError) -> Self {
        Self::Message(error.to_string())
    }
}

impl fmt::Display for Failure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Message(message)
            | Self::Usage(message)
            | Self::Away(message)
            | Self::Refused { message, .. } => f.write_str(message),
            Self::Output(error) => write!(f, "cannot write the result: {error}"),
        }
    }
}
