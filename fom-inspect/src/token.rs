//! The secret of the clients.

use std::{fmt, hint::black_box};

use crate::error::StartError;

/// The least length of a token, in bytes.
const LEAST: usize = 16;

/// A secret. It is compared in constant time, and no text of the inspector has it.
#[derive(Clone)]
pub(crate) struct Token(Box<[u8]>);

impl fmt::Debug for Token {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Token(..)")
    }
}

impl Token {
    pub(crate) fn new(token: String) -> Self {
        Self(token.into_bytes().into())
    }

    pub(crate) fn check(&self) -> Result<(), StartError> {
        match self.0.len() {
            LEAST.. => Ok(()),
            length => Err(StartError::WeakToken { length }),
        }
    }

    /// Compares in a time that depends on the length of `given` only.
    pub(crate) fn is(&self, given: &[u8]) -> bool {
        let mut differs = u8::from(given.len() != self.0.len());
        for (place, byte) in given.iter().enumerate() {
            // A place behind the end of the token is compared with some byte of it.
            differs |= byte ^ self.0[place % self.0.len()];
            differs = black_box(differs);
        }
        differs == 0
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_token_is_equal_to_itself_only() {
        let token = Token::new("0123456789abcdef".into());
        assert!(token.is(b"0123456789abcdef"));
        for other in [
            "",
            "0",
            "0123456789abcdeF",
            "0123456789abcdef0123456789abcdef",
        ] {
            assert!(!token.is(other.as_bytes()), "{other}");
        }
    }

    #[test]
    fn a_token_is_not_printed() {
        let token = Token::new("0123456789abcdef".into());
        assert_eq!(format!("{token:?}"), "Token(..)");
        assert!(token.check().is_ok());
        assert!(Token::new("short".into()).check().is_err());
        assert!(Token::new(String::new()).check().is_err());
    }
}
