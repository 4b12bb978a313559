//! The tables of the book's chapter.

use std::fmt::Write as _;

use super::{Answer, Best, short};

/// A part of the chapter that is written here, between two comments.
pub(crate) struct Place {
    begin: &'static str,
    end: &'static str,
}

pub(crate) const ANSWERS: Place = Place {
    begin: "<!-- what `plots` writes begins here -->",
    end: "<!-- and ends here -->",
};
pub(crate) const INSTRUCTIONS: Place = Place {
    begin: "<!-- the instructions begin here -->",
    end: "<!-- the instructions end here -->",
};

impl Place {
    /// Returns the chapter with `table` in this place.
    pub(crate) fn filled(&self, chapter: &str, table: &str) -> Result<String, String> {
        let Place { begin, end } = self;
        let parts = chapter.split_once(begin).and_then(|(before, rest)| {
            let (_, after) = rest.split_once(end)?;
            Some((before, after))
        });
        let (before, after) =
            parts.ok_or_else(|| format!("speed.md has no `{begin}` .. `{end}`"))?;
        Ok(format!("{before}{begin}\n\n{table}\n{end}{after}"))
    }
}

/// Formats the records of `instructions.txt` as Markdown.
pub(crate) fn instructions(recorded: &str) -> String {
    let mut text = String::from(
        "| | instructions of | fom | tokio | limit |\n| --- | --- | ---: | ---: | ---: |\n",
    );
    for line in recorded.lines().filter(|line| !line.starts_with('#')) {
        let cells: Vec<&str> = line.split_whitespace().collect();
        let [name, fom, tokio, limit, _, of @ ..] = cells.as_slice() else {
            continue;
        };
        // Writing to a string cannot fail.
        let of = of.join(" ");
        let _ = writeln!(text, "| `{name}` | {of} | **{fom}** | {tokio} | {limit} |");
    }
    text
}

/// Formats the answers as Markdown.
pub(crate) fn answers(answers: &[Answer], quick: bool) -> String {
    let mut text = String::new();
    if quick {
        text.push_str("**Of small sizes, good for nothing but to see that it runs.**\n\n");
    }
    text.push_str(
        "| question | unit | tokio | best other | limit | fom | fom / tokio | fom / limit | wanted | met |\n\
         | --- | --- | ---: | ---: | ---: | ---: | ---: | ---: | ---: | --- |\n",
    );
    let number = |value: Option<f64>| value.map_or_else(|| "-".to_owned(), short);
    let of = |best: &Option<Best>| number(best.as_ref().map(|best| best.value));
    // The instructions have a table of their own, and are counted again with each change.
    let mut rows: Vec<_> = named(answers)
        .filter(|(_, answer)| answer.unit != "instructions")
        .collect();
    // Those in which a peer is ahead come first.
    rows.sort_by_key(|(_, answer)| !answer.behind);
    for (question, answer) in rows {
        let other = answer.other.as_ref().map_or_else(
            || "-".to_owned(),
            |best| format!("{} ({})", short(best.value), best.peer),
        );
        // Writing to a string cannot fail.
        let _ = writeln!(
            text,
            "| {} | {} | {} | {other} | {} | **{}** | {} | {} | {} | {} |",
            question.replace('|', "\\|"),
            answer.unit,
            of(&answer.tokio),
            of(&answer.limit),
            of(&answer.fom),
            number(answer.by_tokio),
            number(answer.by_limit),
            answer.target,
            answer.met
        );
    }
    text
}

/// Returns the answers with their names. A part of the question above is indented by two spaces. Its name begins with
/// that question, up to the first comma.
fn named(answers: &[Answer]) -> impl Iterator<Item = (String, &Answer)> {
    let mut above = "";
    answers.iter().map(move |answer| {
        let name = match answer.question.strip_prefix("  ") {
            Some(part) => format!("{above}: {part}"),
            None => {
                above = answer.question.split(", ").next().unwrap_or_default();
                answer.question.clone()
            }
        };
        (name, answer)
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_what_is_between_the_marks_changes() {
        let Place { begin, end } = ANSWERS;
        let chapter = format!("a\n{begin}\nold\n{end}\nb\n");
        let new = ANSWERS.filled(&chapter, "| new |\n").expect("it has marks");
        assert_eq!(new, format!("a\n{begin}\n\n| new |\n\n{end}\nb\n"));
        assert_eq!(ANSWERS.filled(&new, "| new |\n").as_deref(), Ok(&*new));
        assert!(ANSWERS.filled("a", "").is_err());
    }

    #[test]
    fn instructions_are_those_that_are_recorded() {
        let recorded = "# name fom\nstep  14.8  -  15.5  0.95   the step; limit: by hand\n";
        let table = instructions(recorded);
        assert!(table.ends_with("| `step` | the step; limit: by hand | **14.8** | - | 15.5 |\n"));
    }
}
