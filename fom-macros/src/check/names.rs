//! Names that clash, and the enum's own shape.

use std::collections::BTreeMap;

use quote::format_ident;
use syn::ext::IdentExt;
use syn::{GenericParam, Ident, Type};

use crate::diag::Diagnostics;
use crate::model::{Machine, Shared};
use crate::paths::RESUME;

/// The number of a phase must fit into a byte with one value to spare.
const MOST_PHASES: usize = 255;

pub(super) fn check(machine: &mut Machine, diag: &mut Diagnostics) {
    for param in &machine.item.generics.params {
        if let GenericParam::Lifetime(param) = param {
            diag.error(
                &param.lifetime,
                "a phase cannot borrow, because it outlives the call that started it; own the data or share it with `Arc`",
            );
        }
    }
    if machine.phases.is_empty() {
        diag.error(
            &machine.item.ident,
            "the enum has no phase; write a variant for each phase",
        );
    }
    if let Some(phase) = machine.phases.get(MOST_PHASES) {
        diag.error(
            &phase.ident,
            "this is phase number 256, and 255 is the most; split the operation",
        );
    }
    functions(machine, diag);
    generated(machine, diag);
    for phase in machine.working().filter(|phase| phase.waits()) {
        for exit in phase
            .exits
            .iter()
            .filter(|exit| exit.token.unraw() == "Stay")
        {
            diag.error(
                &exit.token,
                "`Stay` is the exit that makes a phase wait on; give the phase another name",
            );
        }
    }
}

/// Reports a type of the user with the name of a generated item, or with the name of the enum. After a mistake, the
/// generated item has another name.
fn generated(machine: &mut Machine, diag: &mut Diagnostics) {
    let of_enum = machine.item.ident.unraw().to_string();
    let operation = machine.operation.as_ref();
    if let Some(name) = operation.and_then(bare)
        && *name == of_enum
    {
        diag.error(
            name,
            format!("the enum of the phases cannot have the name of its operation; give the enum another name, such as `{of_enum}Phases`"),
        );
        machine.named_like_operation = true;
    }
    let used = [&machine.operation, &machine.error, &machine.event];
    let used: Vec<Ident> = used
        .into_iter()
        .filter_map(|ty| bare(ty.as_ref()?).cloned())
        .collect();
    let mut seen: Vec<String> = Vec::new();
    let names = &mut machine.names;
    let of_phases = machine.phases.iter_mut();
    let of_phases = of_phases.flat_map(|phase| {
        let is_by_name = phase.is_by_name();
        let data = [&mut phase.data, &mut phase.data_ref];
        let data = data.into_iter().filter(move |_| is_by_name);
        let is_later = phase.failed_shared == Shared::Later;
        let failed = Some(&mut phase.after_failed).filter(|_| !is_later);
        [&mut phase.after].into_iter().chain(failed).chain(data)
    });
    for name in [&mut names.kind, &mut names.end, &mut names.transitions]
        .into_iter()
        .chain(of_phases)
    {
        let text = name.to_string();
        let user = used.iter().find(|user| **user == text);
        if let Some(user) = user {
            diag.error(
                user,
                format!("`#[fom]` makes a type `{text}` for the enum `{of_enum}`; give one of the two another name"),
            );
        }
        // Two phases with exits of one name also have functions of one name, which is reported.
        if user.is_some() || seen.contains(&text) {
            *name = format_ident!("{name}_");
        }
        seen.push(text);
    }
}

/// Returns the name of a type that is written without a path.
fn bare(ty: &Type) -> Option<&Ident> {
    let Type::Path(ty) = ty else { return None };
    match (&ty.qself, ty.path.leading_colon, ty.path.segments.len()) {
        (None, None, 1) => ty.path.segments.first().map(|segment| &segment.ident),
        _ => None,
    }
}

/// Reports two phases with functions of the same name. The second phase then has no function.
fn functions(machine: &mut Machine, diag: &mut Diagnostics) {
    let mut seen: BTreeMap<String, String> = BTreeMap::new();
    for phase in &mut machine.phases {
        if phase.is_end() && phase.args.entry.is_none() {
            phase.function = None;
        }
        let name = &phase.name;
        let (failed, locks) = (phase.failed_shared, phase.locks_shared);
        for (function, when) in [
            (&mut phase.function, ""),
            (&mut phase.late_function, " when it is late"),
            (
                &mut phase.exhausted_function,
                " when its attempts are used up",
            ),
            (&mut phase.locks_function, " for its locks"),
            (&mut phase.gate_function, " for its gate"),
            (&mut phase.within_function, " for its time limit"),
            (&mut phase.retry_function, " for its retries"),
            (&mut phase.invariant_function, " for its invariant"),
            (&mut phase.failed_function, " when it has failed"),
        ] {
            let is_of_group = match when {
                " for its locks" => locks == Shared::Later,
                " when it has failed" => failed == Shared::Later,
                _ => false,
            };
            // The first phase of the group has this function, too.
            let Some(taken) = function
                .as_ref()
                .filter(|_| !is_of_group)
                .map(|function| function.unraw().to_string())
            else {
                continue;
            };
            let what = format!("`{name}`{when}");
            if taken == RESUME && !machine.transient {
                diag.error(
                    &phase.ident,
                    format!("the function of {what} would be `{RESUME}`, the function that a restored operation runs first; rename the phase"),
                );
            } else if let Some(earlier) = seen.get(&taken) {
                diag.error(
                    &phase.ident,
                    format!("the function of {what} would be `{taken}`, like the function of {earlier}; rename the phase"),
                );
                *function = None;
            } else {
                seen.insert(taken, what);
            }
        }
    }
}
