//! `fom journal verify`.

use std::{io, path::Path};

use serde_json::json;

use super::pass;
use crate::{failure::Failure, json::Full, output::Output};

/// How often a journal that a program has open is read again, if it seems to be damaged.
const TRIES: u32 = 3;

pub(super) fn run(directory: &Path, output: &mut Output<'_>) -> Result<u8, Failure> {
    let mut tries = 1;
    let pass = loop {
        // Reads all values, too.
        let pass = pass::over(directory, output, &mut |_, record| {
            serde_json::to_writer(io::sink(), &Full(record))?;
            Ok(())
        })?;
        if pass.damaged == 0 || !pass.files.in_use || tries == TRIES {
            break pass;
        }
        tries += 1;
    };
    let torn = pass.files.recovery.torn.as_ref();
    if output.is_json() {
        output.object(&json!({
            "records": pass.records,
            "segments": pass.files.segments,
            "damaged": pass.damaged,
            "damage": pass.damage,
            "torn": torn.map(ToString::to_string),
            "closed": pass.files.closed,
            "in_use": pass.files.in_use,
        }))?;
        return Ok(pass.status());
    }
    if let Some(torn) = torn {
        output.line(&format!(
            "a crash broke off the last write, which was never acknowledged, so nothing is lost: {torn}"
        ))?;
    }
    let segments = pass.files.segments;
    output.line(&match pass.damaged {
        0 => format!("{} records in {segments} segments, no damage", pass.records),
        damaged => format!(
            "{} records in {segments} segments, and {damaged} damaged places",
            pass.records
        ),
    })?;
    Ok(pass.report(output))
}
