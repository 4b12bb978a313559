//! Saved data of earlier releases: a chain of migrations without a gap, and names that mean one thing forever.

use std::collections::{BTreeMap, BTreeSet};

use syn::ext::IdentExt;
use syn::{Ident, LitInt, LitStr};

use crate::diag::Diagnostics;
use crate::model::Machine;
use crate::paths::{normalized_name, type_name};

pub(super) fn check(machine: &Machine, diag: &mut Diagnostics) {
    if machine.transient_key.is_some() {
        never_saved(machine, diag);
        return;
    }
    if let Some((key, _)) = &machine.operation_name
        && !machine.transient
    {
        diag.error(
            key,
            format!("saved data are found by the operation's type as written; remove `{key}`, or write `transient`"),
        );
    }
    chain(machine, diag);
    names(machine, diag);
    let of_enum = machine.item.ident.unraw().to_string();
    renamed(&machine.was, &of_enum, |name| name.to_owned(), diag);
    if let Some(operation) = &machine.operation {
        renamed(
            &machine.operation_was,
            &type_name(operation),
            normalized_name,
            diag,
        );
    }
}

/// Checks the earlier names of the enum or the operation: each differs from today's name, and occurs once.
fn renamed(
    was: &[(Ident, Option<LitStr>)],
    today: &str,
    spell: impl Fn(&str) -> String,
    diag: &mut Diagnostics,
) {
    let mut seen = BTreeSet::new();
    for (_, was) in was {
        let Some(was) = was else { continue };
        let name = spell(&was.value());
        if name == today {
            diag.error(
                was,
                format!("`{name}` is the current name; remove this `was`"),
            );
        } else if !seen.insert(name) {
            diag.error(
                was,
                format!("`was = \"{}\"` is written twice; keep one", was.value()),
            );
        }
    }
}

/// Reports these keys on a transient operation, because no earlier release has saved it.
fn never_saved(machine: &Machine, diag: &mut Diagnostics) {
    let keys = [
        machine.version.as_ref().map(|(key, _)| key),
        machine.migrate_key.as_ref(),
        machine.retired_key.as_ref(),
    ];
    let of_phases = machine.phases.iter().flat_map(|phase| {
        let was = phase.args.was.iter().map(|(key, _)| key);
        was.chain(phase.defaults.iter().flatten())
    });
    let was = machine.operation_was.iter().chain(&machine.was);
    let was = was.map(|(key, _)| key);
    for key in keys.into_iter().flatten().chain(was).chain(of_phases) {
        diag.error(
            key,
            format!("a transient operation is never saved; remove `{key}` or `transient`"),
        );
    }
}

/// Checks that the migrations lead to this version, in order and without a gap.
fn chain(machine: &Machine, diag: &mut Diagnostics) {
    // After a reported mistake, the number is unknown.
    let version = match &machine.version {
        None => 1,
        Some((_, Some(number))) => match number.base10_parse::<u32>() {
            Ok(version) => version,
            Err(_) => return,
        },
        Some((_, None)) => return,
    };
    if let (None, Some(key)) = (&machine.version, &machine.migrate_key) {
        let highest = machine.migrations.iter().map(|one| one.from).max();
        let next = highest.unwrap_or(1).saturating_add(1);
        diag.error(
            key,
            format!(
                "`migrate` needs the version that it leads to; write `version = {next}` beside it"
            ),
        );
        return;
    }
    let reached = in_order(machine, version, diag);
    let is_empty = machine.migrate_key.is_some() && machine.migrations.is_empty();
    if let (Some(reached), Some((_, Some(number)))) = (reached, &machine.version)
        && !is_empty
        && !machine.migrate_has_mistake
        && reached < version
    {
        missing_at_the_end(machine, reached, number, version - 1, diag);
    }
}

/// Checks the order of the migrations. Returns the version that they reach, or `None` if one is at a wrong place.
fn in_order(machine: &Machine, version: u32, diag: &mut Diagnostics) -> Option<u32> {
    let mut expected: Option<u32> = None;
    let mut all_in_place = true;
    for one in &machine.migrations {
        let (token, from) = (&one.token, one.from);
        let mistake = match expected {
            _ if from >= version => Some(format!(
                "version {from} is not earlier than `version = {version}`; remove `{token}`, or write `version = {}`",
                from.saturating_add(1)
            )),
            Some(expected) if from + 1 == expected => {
                Some(format!("`{token}` is written twice; keep one"))
            }
            Some(expected) if from < expected => Some(format!(
                "`{token}` comes after `v{}`; write the migrations in order",
                expected - 1
            )),
            _ => None,
        };
        if let Some(mistake) = mistake {
            all_in_place = false;
            diag.error(token, mistake);
            continue;
        }
        if let Some(expected) = expected.filter(|expected| from > *expected) {
            diag.error(
                token,
                format!("there is no migration from version {expected}; write `v{expected}(path)` before `{token}`"),
            );
        }
        expected = Some(from + 1);
    }
    all_in_place.then_some(expected.unwrap_or(1))
}

/// Reports that the migrations end at version `reached`, and that the last one must begin at `last`.
fn missing_at_the_end(
    machine: &Machine,
    reached: u32,
    number: &LitInt,
    last: u32,
    diag: &mut Diagnostics,
) {
    let remedy = match machine.migrations.last() {
        Some(one) if reached < last => format!(
            "write `v{reached}(path)` to `v{last}(path)` after `{}`",
            one.token
        ),
        Some(one) => format!("write `v{last}(path)` after `{}`", one.token),
        None => format!("write `migrate(v{last}(path))` beside it"),
    };
    diag.error(
        number,
        format!("there is no migration from version {last} to this one; {remedy}"),
    );
}

/// Checks that the names of phases of earlier releases mean one thing.
fn names(machine: &Machine, diag: &mut Diagnostics) {
    let retired: Vec<String> = machine.retired.iter().map(|name| name.value()).collect();
    for phase in &machine.phases {
        if retired.contains(&phase.name) {
            diag.error(
                &phase.ident,
                format!("`{}` is retired, and data may still be saved under this name; give the phase another name", phase.ident.unraw()),
            );
        }
    }
    let mut seen: BTreeMap<String, &str> = BTreeMap::new();
    for phase in &machine.phases {
        for (_, was) in &phase.args.was {
            let Some(was) = was else { continue };
            let name = was.value();
            let is_a_phase = machine.phases.iter().any(|phase| phase.name == name);
            let mistake = match seen.get(&name) {
                _ if name == phase.name => {
                    format!("`{name}` is the current name; remove this `was`")
                }
                _ if is_a_phase => {
                    format!(
                        "`{name}` is a phase of this release, and its saved data stay in it; remove this `was`, or rename that phase"
                    )
                }
                _ if retired.contains(&name) => {
                    format!(
                        "`{name}` is retired, so no phase continues it; remove it from `retired`, or remove this `was`"
                    )
                }
                Some(other) if *other == phase.name => {
                    format!("`was = \"{name}\"` is written twice; keep one")
                }
                Some(other) => {
                    format!(
                        "`{name}` already continues in `{other}`, and only one phase can continue it; keep one"
                    )
                }
                None => {
                    seen.insert(name, &phase.name);
                    continue;
                }
            };
            diag.error(was, mistake);
        }
    }
}
