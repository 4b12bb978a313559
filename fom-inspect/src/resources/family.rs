//! The parent and the children of a fom.

use fom_runtime::observe::Filter;
use serde_json::{Value, json};

use super::{id, value};
use crate::{parents::Parent, problem::Problem, state::State};

/// The most children in an answer.
const MOST: usize = 100;

/// Finds the parent and the children of a fom, in one walk over the foms in flight.
pub(super) fn family(state: &State, number: u64) -> Result<Value, Problem> {
    let missing = || Problem::no_fom(number);
    let of = id(number).ok_or_else(missing)?;
    let (mut parent, mut children) = (None, 0);
    let found = state.runtime.inspect().matching(&Filter::default(), |fom| {
        let carried = fom.carried::<Parent>().map(|parent| *parent);
        if fom.id() == of {
            parent = Some(carried);
        }
        let is_child = carried == Some(Parent(Some(of)));
        children += usize::from(is_child);
        is_child && children <= MOST
    });
    let Some(Parent(parent)) = parent.ok_or_else(missing)? else {
        // The program does not use `ParentsExt::parents`.
        return Ok(json!({"parent": null, "children": null, "more": false}));
    };
    Ok(json!({
        "parent": parent,
        "children": found.iter().map(|fom| value(&fom.info())).collect::<Vec<_>>(),
        "more": children > MOST,
    }))
}
