//! What a frame asks the program for.

use serde::Serialize;
use serde_json::Value;

use crate::{
    client::{Client, encoded},
    failure::Failure,
    seen::{list, text, whole},
};

/// The oldest foms, and the oldest fom of each phase. This walks the foms once.
const FOMS: &str = "foms?limit=20&oldest=1&sort=in_phase";

/// The answers for one frame. What the program could not answer is `null`.
#[derive(Debug, Default, Serialize)]
pub(super) struct Answers {
    pub(super) summary: Value,
    /// The machine of which the frame shows the phases.
    pub(super) machine: Value,
    pub(super) foms: Value,
    pub(super) localities: Value,
    pub(super) warnings: Value,
    /// Why a part is missing.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) trouble: Option<String>,
}

impl Answers {
    /// Asks the program. `wanted` is the machine that the user chose.
    pub(super) fn fetch(client: &Client, wanted: Option<&str>) -> Result<Self, Failure> {
        let mut answers = Self {
            summary: client.get("summary")?,
            ..Self::default()
        };
        if let Some(name) = machine(&answers.summary, wanted) {
            let resource = format!("machines/{}", encoded(&name));
            answers.machine = answers.part(client, &resource)?;
        }
        answers.foms = answers.part(client, FOMS)?;
        answers.localities = answers.part(client, "localities")?;
        answers.warnings = answers.part(client, "warnings")?;
        Ok(answers)
    }

    /// Asks for one part. A program that is busy may refuse it.
    fn part(&mut self, client: &Client, resource: &str) -> Result<Value, Failure> {
        match client.get(resource) {
            Err(Failure::Refused { message, .. }) => {
                self.trouble = Some(message);
                Ok(Value::Null)
            }
            answered => answered,
        }
    }
}

/// Returns the machine of the phases: the one that the user chose, or else the one with the most foms.
fn machine(summary: &Value, wanted: Option<&str>) -> Option<String> {
    let machines = || list(summary, "machines").iter();
    let chosen = machines().find(|one| wanted == Some(text(one, "type")));
    // Of several, the first one, as on the screen.
    let largest = || machines().rev().max_by_key(|one| whole(one, "in_flight"));
    let machine = chosen.or_else(largest)?;
    Some(text(machine, "type").to_owned())
}
