//! What the language promises, through the public API.
