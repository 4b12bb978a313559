//! `fom journal dump`.

use std::path::Path;

use super::pass;
use crate::{failure::Failure, json::Full, output::Output};

pub(super) fn run(directory: &Path, output: &mut Output<'_>) -> Result<u8, Failure> {
    let pass = pass::over(directory, output, &mut |output, record| {
        output.object(&Full(record))
    })?;
    Ok(pass.report(output))
}
