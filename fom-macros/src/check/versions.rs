//! Saved data of earlier releases: a chain of migrations without a gap, and names that mean one thing forever.

use std::collections::{BTreeMap, BTreeSet};

use syn::ext::IdentExt;
use syn::{Ident, LitStr};

use crate::diag::Diagnostics;
use crate::model::Machine;
use crate::paths::{spelt, type_name};

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
            format!("data of a saved operation are found by its type as written; take `{key}` out, or write `transient`"),
        );
    }
    chain(machine, diag);
    names(machine, diag);
    let of_enum = machine.item.ident.unraw().to_string();
    renamed(&machine.was, &of_enum, |name| name.to_owned(), diag);
    if let Some(operation) = &machine.operation {
        renamed(&machine.operation_was, &type_name(operation), spelt, diag);
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
                format!("`{name}` is its name today; take this `was` out"),
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
            format!("a transient operation is never saved; take `{key}` out, or `transient`"),
        );
    }
}

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
                "nothing says which version it migrates to; write `version = {next}` beside it"
            ),
        );
        return;
    }
    let mut expected: Option<u32> = None;
    let mut whole = true;
    for one in &machine.migrations {
        let (token, from) = (&one.token, one.from);
        if from >= version {
            whole = false;
            diag.error(
                token,
                format!(
                    "version {from} is not an earlier one than `version = {version}`; take `{token}` out, or write `version = {}`",
                    from.saturating_add(1)
                ),
            );
            continue;
        }
        match expected {
            Some(expected) if from + 1 == expected => {
                whole = false;
                diag.error(token, format!("`{token}` is written twice; keep one"));
                continue;
            }
            Some(expected) if from < expected => {
                whole = false;
                diag.error(
                    token,
                    format!(
                        "`{token}` stands after `v{}`; write the migrations in their order",
                        expected - 1
                    ),
                );
                continue;
            }
            Some(expected) if from > expected => {
                diag.error(
                    token,
                    format!("there is no migration from version {expected}; write `v{expected}(path)` before `{token}`"),
                );
            }
            _ => {}
        }
        expected = Some(from + 1);
    }
    let reached = expected.unwrap_or(1);
    let bad = machine.migrate_key.is_some() && machine.migrations.is_empty();
    if let Some((_, Some(number))) = &machine.version
        && whole
        && !bad
        && !machine.migrate_bad
        && reached < version
    {
        let last = version - 1;
        let cure = match machine.migrations.last() {
            Some(last_one) if reached < last => format!(
                "write `v{reached}(path)` to `v{last}(path)` after `{}`",
                last_one.token
            ),
            Some(last_one) => format!("write `v{last}(path)` after `{}`", last_one.token),
            None => format!("write `migrate(v{last}(path))` beside it"),
        };
        diag.error(
            number,
            format!("there is no migration from version {last} to this one; {cure}"),
        );
    }
}

fn names(machine: &Machine, diag: &mut Diagnostics) {
    let phase_named = |name: &str| machine.phases.iter().find(|phase| phase.name == name);
    let retired: Vec<String> = machine.retired.iter().map(|name| name.value()).collect();
    for phase in &machine.phases {
        if retired.contains(&phase.name) {
            diag.error(
                &phase.ident,
                format!("`{}` is retired: something may still be saved in the phase that had this name; give this one another", phase.ident.unraw()),
            );
        }
    }
    let mut seen: BTreeMap<String, &str> = BTreeMap::new();
    for phase in &machine.phases {
        for (_, was) in &phase.args.was {
            let Some(was) = was else { continue };
            let name = was.value();
            if name == phase.name {
                diag.error(
                    was,
                    format!("`{name}` is its name today; take this `was` out"),
                );
            } else if phase_named(&name).is_some() {
                diag.error(
                    was,
                    format!("`{name}` is a phase of today, and what is saved in it stays in it; take this `was` out, or give that phase another name"),
                );
            } else if retired.contains(&name) {
                diag.error(
                    was,
                    format!("`{name}` is retired, so nothing goes on in it; take it out of `retired`, or this `was` out"),
                );
            } else if let Some(other) = seen.get(&name) {
                if *other == phase.name {
                    diag.error(
                        was,
                        format!("`was = \"{name}\"` is written twice; keep one"),
                    );
                } else {
                    diag.error(
                        was,
                        format!("`{name}` was `{other}` already, and goes on in one phase only; keep one"),
                    );
                }
            } else {
                seen.insert(name, &phase.name);
            }
        }
    }
}
