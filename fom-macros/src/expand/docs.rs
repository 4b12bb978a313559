//! The table and the drawing of the machine for the enum's rustdoc, and doc comments as text.

use proc_macro2::TokenStream;
use quote::{ToTokens, quote};
use syn::{Attribute, Expr, Lit, Meta};

use crate::model::{Machine, Mode, Phase};
use crate::syntax::phase::Cancelled;
use crate::syntax::within::Within;
use crate::syntax::{Setting, path_text};

/// Returns the enum as written, with a table and a drawing after its docs.
pub(super) fn documented(machine: &Machine) -> TokenStream {
    let item = &machine.item;
    let (attrs, vis, ident, generics) = (&item.attrs, &item.vis, &item.ident, &item.generics);
    let (enum_token, bounds, variants) = (&item.enum_token, &generics.where_clause, &item.variants);
    let doc = format!("\n\n{}\n{}", table(machine), drawing(machine));
    let doc = if machine.has_cfg() {
        None
    } else {
        Some(quote!(#[doc = #doc]))
    };
    quote! {
        #(#attrs)*
        #doc
        #vis #enum_token #ident #generics #bounds { #variants }
    }
    .to_token_stream()
}

fn table(machine: &Machine) -> String {
    let mut table =
        String::from("| phase | may go to | within | notes |\n| --- | --- | --- | --- |\n");
    for phase in &machine.phases {
        let to: Vec<String> = phase
            .exits
            .iter()
            .map(|exit| format!("`{}`", exit.token))
            .collect();
        let within = phase
            .args
            .within
            .as_ref()
            .and_then(|(_, within)| within.as_ref())
            .map_or_else(String::new, |within| match within {
                Setting::Written(Within::Fixed(nanos)) => duration(*nanos),
                Setting::Written(Within::Adaptive { floor, ceiling }) => {
                    format!("adaptive {}..{}", duration(*floor), duration(*ceiling))
                }
                Setting::Constant(path) => format!("`{}`", path_text(path)),
                Setting::Asked => asked(phase.within_function.as_ref()),
            });
        let notes = notes(phase).join("; ");
        table.push_str(&format!(
            "| `{}` | {} | {within} | {notes} |\n",
            phase.name,
            to.join(", ")
        ));
    }
    table
}

/// Returns the function that says a time at run time.
fn asked(function: Option<&syn::Ident>) -> String {
    function.map_or_else(String::new, |name| format!("`{name}()`"))
}

fn notes(phase: &Phase) -> Vec<String> {
    let args = &phase.args;
    let mut notes = Vec::new();
    let flags = [
        (args.start.is_some(), "start"),
        (args.end.is_some(), "end"),
        (args.failure.is_some(), "failure"),
        (args.late.is_some(), "has a function for a missed deadline"),
        (
            args.exhausted.is_some(),
            "has a function for used-up attempts",
        ),
        (!phase.is_end() && phase.mode == Mode::Sync, "sync"),
        (!phase.is_end() && phase.mode == Mode::Blocking, "blocking"),
        (args.locks.is_some(), "holds locks"),
        (args.gate.is_some(), "has a gate"),
    ];
    notes.extend(
        flags
            .into_iter()
            .filter(|(set, _)| *set)
            .map(|(_, note)| note.to_owned()),
    );
    if !phase.on().is_empty() {
        let events: Vec<String> = phase
            .on()
            .iter()
            .map(|event| format!("`{event}`"))
            .collect();
        notes.push(format!("takes {}", events.join(", ")));
    }
    if phase.is_inner() {
        notes.push("the place of the inner operation".to_owned());
    }
    if !phase.failed.is_empty() {
        let failed: Vec<String> = phase
            .failed
            .iter()
            .map(|exit| format!("`{}`", exit.token))
            .collect();
        let when = match args.cancelled {
            Some((_, Cancelled::Back)) => "after a failure or a cancel",
            Some((_, Cancelled::Later)) | None => "after a failure",
        };
        notes.push(format!("{when}: {}", failed.join(", ")));
    }
    if let Some((_, Cancelled::Later)) = args.cancelled {
        notes.push("a cancel waits".to_owned());
    }
    match &args.retry {
        Some((_, Some(Setting::Asked))) => {
            notes.push(format!("retry {}", asked(phase.retry_function.as_ref())));
        }
        Some((_, Some(Setting::Written(retry)))) => notes.push(format!(
            "up to {} retries, after {} to {}",
            retry.times,
            duration(retry.least),
            duration(retry.most)
        )),
        Some((_, Some(Setting::Constant(path)))) => {
            notes.push(format!("tried again as `{}` says", path_text(path)));
        }
        _ => {}
    }
    notes
}

fn duration(nanos: u64) -> String {
    let units = [
        (86_400_000_000_000, "d"),
        (3_600_000_000_000, "h"),
        (60_000_000_000, "m"),
        (1_000_000_000, "s"),
        (1_000_000, "ms"),
        (1_000, "us"),
        (1, "ns"),
    ];
    let mut rest = nanos;
    let mut text = String::new();
    for (scale, unit) in units {
        if rest >= scale {
            text.push_str(&format!("{}{unit}", rest / scale));
            rest %= scale;
        }
    }
    text
}

fn drawing(machine: &Machine) -> String {
    let width = machine
        .phases
        .iter()
        .map(|phase| phase.name.chars().count())
        .max()
        .unwrap_or(0);
    let mut drawing = String::from("```text\n");
    for phase in &machine.phases {
        let mark = match (&phase.args.start, phase.is_end(), &phase.args.failure) {
            (Some(_), _, _) => '●',
            (None, true, None) => '◉',
            (None, true, Some(_)) => '✗',
            (None, false, _) => '○',
        };
        drawing.push_str(&format!("{mark} {}", phase.name));
        let fill = width - phase.name.chars().count();
        let last = phase.exits.len().saturating_sub(1);
        for (number, exit) in phase.exits.iter().enumerate() {
            let name = exit.edge.as_ref().map(|name| format!(" ({name})"));
            let to = format!("{}{}", exit.token, name.unwrap_or_default());
            match (number, last) {
                (0, 0) => drawing.push_str(&format!(" {}──▶ {}", "─".repeat(fill), to)),
                (0, _) => drawing.push_str(&format!(" {}┬─▶ {}", "─".repeat(fill), to)),
                (number, last) => {
                    let corner = if number == last { '└' } else { '├' };
                    drawing.push_str(&format!("\n{}{corner}─▶ {}", " ".repeat(width + 3), to));
                }
            }
        }
        drawing.push('\n');
    }
    drawing.push_str("```\n");
    drawing
}

/// Returns doc comments as one text.
pub(super) fn text(attrs: &[Attribute]) -> String {
    let lines = attrs
        .iter()
        .filter(|attr| attr.path().is_ident("doc"))
        .filter_map(|attr| match &attr.meta {
            Meta::NameValue(doc) => match &doc.value {
                Expr::Lit(value) => match &value.lit {
                    Lit::Str(text) => Some(text.value()),
                    _ => None,
                },
                _ => None,
            },
            _ => None,
        });
    let lines: Vec<String> = lines
        .map(|line| line.strip_prefix(' ').unwrap_or(&line).to_owned())
        .collect();
    lines.join("\n").trim().to_owned()
}
