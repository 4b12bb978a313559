//! Names that clash, and the enum's own shape.

use std::collections::BTreeMap;

use syn::GenericParam;
use syn::ext::IdentExt;

use crate::diag::Diagnostics;
use crate::model::Machine;
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

/// Reports two phases with functions of the same name. The second phase then has no function.
fn functions(machine: &mut Machine, diag: &mut Diagnostics) {
    let mut seen: BTreeMap<String, String> = BTreeMap::new();
    for phase in machine.phases.iter_mut().filter(|phase| !phase.is_end()) {
        let name = &phase.name;
        for (function, when) in [
            (&mut phase.function, ""),
            (&mut phase.late_function, " when it is late"),
            (
                &mut phase.exhausted_function,
                " when its attempts are used up",
            ),
            (&mut phase.locks_function, " for its locks"),
            (&mut phase.gate_function, " for its gate"),
            (&mut phase.failed_function, " when it has failed"),
        ] {
            let Some(taken) = function
                .as_ref()
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
