//! The token of an inspector. It is never in the command line, which all users of a machine can read.

use std::{env, fs};

use hyper::header::HeaderValue;

use crate::{args::Program, failure::Failure};

/// The variable with the token.
const VARIABLE: &str = "FOM_INSPECT_TOKEN";

/// Returns the token as a header, from a file or from the environment. `None` if there is none.
pub(super) fn of(program: &Program) -> Result<Option<HeaderValue>, Failure> {
    let (token, place) = match &program.token_file {
        Some(path) => {
            let place = path.display().to_string();
            let token = fs::read_to_string(path)
                .map_err(|error| Failure::usage(format!("cannot read {place}: {error}")))?;
            (token, place)
        }
        None => match env::var(VARIABLE) {
            Ok(token) if !token.is_empty() => (token, format!("the variable {VARIABLE}")),
            _ => return Ok(None),
        },
    };
    let token = token.trim_end_matches(['\r', '\n']);
    // The message does not show the token.
    let wrong = |_| Failure::usage(format!("{place} has no token of one line of ASCII"));
    let mut header = HeaderValue::from_str(&format!("Bearer {token}")).map_err(wrong)?;
    header.set_sensitive(true);
    Ok(Some(header))
}
