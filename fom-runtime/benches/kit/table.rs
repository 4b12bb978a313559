//! Figures for human readers.

use std::fmt::Write as _;

use crate::{Answer, Best, Case, Rounds, short};

/// Formats columns as wide as their content. The first `left` columns are aligned left, the others right.
fn columns(rows: &[Vec<String>], left: usize) -> String {
    let width = |n: usize| {
        rows.iter()
            .filter_map(|row| row.get(n))
            .map(|cell| cell.chars().count())
            .max()
    };
    let widths: Vec<_> = (0..).map_while(width).collect();
    let mut text = String::new();
    for row in rows {
        let mut line = String::new();
        for (n, (cell, width)) in row.iter().zip(&widths).enumerate() {
            // Writing to a string cannot fail.
            let _ = if n < left {
                write!(line, "{cell:<width$}  ")
            } else {
                write!(line, "{cell:>width$}  ")
            };
        }
        text.push_str(line.trim_end());
        text.push('\n');
    }
    text
}

/// Returns the one table.
pub fn table(answers: &[Answer]) -> String {
    let head = [
        "question",
        "unit",
        "tokio-mt",
        "best other",
        "limit",
        "fom",
        "fom/tokio",
        "fom/limit",
        "target",
        "met?",
    ];
    let mut rows = vec![head.map(str::to_owned).to_vec()];
    let number = |value: Option<f64>| value.map_or_else(|| "-".to_owned(), short);
    let named = |best: &Option<Best>| {
        best.as_ref().map_or_else(
            || "-".to_owned(),
            |best| format!("{} ({})", short(best.value), best.peer),
        )
    };
    for answer in answers {
        rows.push(vec![
            answer.question.clone(),
            answer.unit.clone(),
            number(answer.tokio.as_ref().map(|best| best.value)),
            named(&answer.other),
            number(answer.limit.as_ref().map(|best| best.value)),
            number(answer.fom.as_ref().map(|best| best.value)),
            number(answer.by_tokio),
            number(answer.by_limit),
            answer.target.clone(),
            answer.met.clone(),
        ]);
    }
    columns(&rows, 2)
}

/// Returns all medians. Cases with the same figures are in one table.
pub fn details(cases: &[Case], rounds: &Rounds) -> String {
    let mut text = String::new();
    let figures_of = |case: &Case| rounds.figures(case.name);
    for cases in cases.chunk_by(|a, b| figures_of(a) == figures_of(b)) {
        let figures = figures_of(&cases[0]);
        let head = ["case", "peer"].into_iter().chain(figures.iter().copied());
        let mut lines = vec![head.map(str::to_owned).collect::<Vec<_>>()];
        for (case, peer) in cases
            .iter()
            .flat_map(|case| case.peers.iter().map(move |peer| (case, peer)))
        {
            let value = |figure: &&str| rounds.median(|round| round.get(case.name, peer, figure));
            let values: Vec<_> = figures.iter().map(value).collect();
            if values.iter().all(Option::is_none) {
                continue;
            }
            let shown = |value: Option<f64>| value.map_or_else(|| "-".to_owned(), short);
            let mut line = vec![case.name.to_owned(), (*peer).to_owned()];
            line.extend(values.into_iter().map(shown));
            lines.push(line);
        }
        if lines.len() > 1 {
            text.push_str(&columns(&lines, 2));
        }
    }
    text
}
