//! Which fom a text names.

use serde_json::Value;

use crate::{
    client::{Client, foms},
    failure::Failure,
    filter::Filter,
    seen::{state, text, whole},
};

/// The most foms with one key that are looked at.
const MOST: &str = "20";

/// Returns the foms in flight with this id or key. A number is an id first.
pub(super) fn find(client: &Client, name: &str) -> Result<Vec<Value>, Failure> {
    if let Ok(id) = name.parse::<u64>()
        && let Some(mut answer) = client.find(&format!("foms/{id}"))?
    {
        return Ok(vec![answer["fom"].take()]);
    }
    let filter = Filter::key(name);
    let mut answer = client.get(&foms(&filter, &[("limit", MOST), ("sort", "id")]))?;
    match answer["page"].take() {
        Value::Array(page) => Ok(page),
        _ => Ok(Vec::new()),
    }
}

/// Returns the id of the only fom in flight with this id or key. `None` if there is none.
pub(super) fn find_one(client: &Client, name: &str) -> Result<Option<u64>, Failure> {
    match &find(client, name)?[..] {
        [] => Ok(None),
        [fom] => Ok(Some(whole(fom, "id"))),
        foms => {
            let foms: Vec<_> = foms.iter().map(described).collect();
            Err(Failure::new(format!(
                "several foms have the key `{name}`: {}; write the id of one of them",
                foms.join(", ")
            )))
        }
    }
}

fn described(fom: &Value) -> String {
    let (id, operation, phase) = (whole(fom, "id"), text(fom, "operation"), text(fom, "phase"));
    format!("{id} ({operation} in {phase}, {})", state(fom))
}

/// No fom has this id or key.
pub(super) fn missing(name: &str) -> Failure {
    Failure::new(format!(
        "no fom in flight has the id or key `{name}`; `fom list` shows those that are there, and `fom list --failed` \
         those that failed"
    ))
}
