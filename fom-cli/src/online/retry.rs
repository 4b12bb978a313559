//! `fom retry`: what a failed attempt needs depends on where the operation is.
//!
//! | the operation | what the command does |
//! | --- | --- |
//! | is in flight, and waits for its next attempt | begins the attempt now |
//! | is in quarantine | takes it out, and tries it again |
//! | has failed, and the program has its snapshot | submits it again, in the phase in which it failed |

use serde_json::json;

use super::{
    act,
    failed::{self, Where},
    fom,
};
use crate::{args::Many, client::Client, failure::Failure, output::Output};

pub(super) fn run(client: &Client, many: &Many, output: &mut Output<'_>) -> Result<(), Failure> {
    if let Some(filter) = &many.target.filter {
        return act::of_filter(client, "next_attempt", filter, many, output);
    }
    let name = act::one_fom(many)?;
    if let Some(id) = fom::find_one(client, name)? {
        return act::one(
            client,
            &many.act,
            json!({"action": "next_attempt", "id": id}),
            output,
        );
    }
    let failed = failed::find(client, name)?;
    let (action, id) = match &failed[..] {
        [] => return Err(fom::missing(name)),
        [one] => (action(one.place), one.id()),
        several => {
            let ids: Vec<_> = several.iter().map(|one| one.id().to_string()).collect();
            return Err(Failure::new(format!(
                "several failed operations have the key `{name}`; write one of the ids {}",
                ids.join(", ")
            )));
        }
    };
    act::one(
        client,
        &many.act,
        json!({"action": action, "id": id}),
        output,
    )
}

fn action(place: Where) -> &'static str {
    match place {
        Where::Quarantine => "retry",
        Where::Memory => "resubmit",
    }
}
