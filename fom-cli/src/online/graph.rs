//! `fom graph`.

use crate::{
    args::Drawn,
    client::{Client, encoded},
    failure::Failure,
    output::Output,
    seen::text,
};

pub(super) fn run(client: &Client, drawn: &Drawn, output: &mut Output<'_>) -> Result<(), Failure> {
    let form = match drawn {
        Drawn { svg: true, .. } => "svg",
        Drawn { mermaid: true, .. } => "mermaid",
        Drawn { dot: true, .. } => "dot",
        _ => "text",
    };
    let machine = encoded(&drawn.machine);
    let answer = client.get(&format!("machines/{machine}/graph?form={form}"))?;
    if output.is_json() {
        return Ok(output.object(&answer)?);
    }
    for line in text(&answer, "graph").lines() {
        output.line(line)?;
    }
    Ok(())
}
