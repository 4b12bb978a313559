//! `fom list`.

use std::io;

use serde_json::Value;

use super::failed;
use crate::{
    args::Listing,
    client::{Client, foms},
    failure::Failure,
    filter::Filter,
    output::Output,
    seen::{list, named, number, state, text, waiting_for, whole},
    words::{plural, time},
};

/// The most foms that one request asks for. An answer has at most 1 MiB.
const PAGE: u64 = 200;

pub(super) fn run(
    client: &Client,
    listing: &Listing,
    output: &mut Output<'_>,
) -> Result<(), Failure> {
    if listing.failed {
        return failed(client, listing.limit, output);
    }
    let filter = listing.filter.iter().map(String::as_str);
    let filter = Filter::read(filter).map_err(Failure::Usage)?;
    let (mut left, mut after) = (listing.limit, String::new());
    let mut is_first = true;
    loop {
        let limit = left.min(PAGE).to_string();
        let mut others = vec![("sort", listing.sort.as_str()), ("limit", &limit)];
        if !after.is_empty() {
            others.push(("after", &after));
        }
        let answer = client.get(&foms(&filter, &others))?;
        let page = list(&answer, "page");
        if !output.is_json() && !page.is_empty() && std::mem::take(&mut is_first) {
            head(output)?;
        }
        for fom in page {
            match output.is_json() {
                true => output.object(fom)?,
                false => line(fom, output)?,
            }
        }
        left = left.saturating_sub(page.len() as u64);
        let next = text(&answer, "next");
        if next.is_empty() || page.is_empty() || left == 0 {
            let (shown, all) = (listing.limit - left, whole(&answer, "foms"));
            if shown < all {
                left_out(shown, &plural(all, "fom"), output);
            }
            return Ok(());
        }
        after = next.to_owned();
    }
}

/// Says that the list has not all.
fn left_out(shown: u64, all: &str, output: &mut Output<'_>) {
    output.note(&format!("{shown} of {all}; `--limit` shows more"));
}

fn head(output: &mut Output<'_>) -> io::Result<()> {
    output.line(&format!(
        "{:>8} {:<24} {:<16} {:<9} {:>12} {:<3} waiting for",
        "id", "operation and key", "phase", "state", "in phase", "loc"
    ))
}

fn line(fom: &Value, output: &mut Output<'_>) -> io::Result<()> {
    let line = format!(
        "{:>8} {:<24} {:<16} {:<9} {:>12} {:<3} {}",
        whole(fom, "id"),
        named(fom),
        text(fom, "phase"),
        state(fom),
        time(number(fom, "in_phase")),
        whole(fom, "locality"),
        waiting_for(fom)
    );
    output.line(line.trim_end())
}

/// Lists failed operations and the quarantine.
fn failed(client: &Client, limit: u64, output: &mut Output<'_>) -> Result<(), Failure> {
    let (shown, all) = failed::all(client, limit)?;
    if !output.is_json() && !shown.is_empty() {
        output.line(&format!(
            "{:>8} {:<24} {:<16} {:<14} why",
            "id", "operation and key", "phase", "state"
        ))?;
    }
    for failed in &shown {
        if output.is_json() {
            output.object(&failed.json())?;
            continue;
        }
        let line = format!(
            "{:>8} {:<24} {:<16} {:<14} {}",
            failed.id(),
            named(&failed.entry),
            text(&failed.entry, "phase"),
            failed.state(),
            failed.why()
        );
        output.line(&line)?;
    }
    let shown = shown.len() as u64;
    if shown == limit && shown < all {
        left_out(shown, &all.to_string(), output);
    } else if shown < all {
        output.note(&format!("{shown} of {all}; an inspector lists no more"));
    }
    Ok(())
}
