//! Text in a drawing. Its width is an estimate that fits the wide fonts among the usual ones.

/// Returns the width of `text` in pixels, in letters of this size.
pub(crate) fn width(text: &str, size: f64) -> f64 {
    text.chars().map(em).sum::<f64>() * size
}

/// Returns the width of a letter, as a part of the letters' size.
fn em(letter: char) -> f64 {
    match letter {
        'i' | 'j' | 'l' | 'I' | '.' | ',' | ':' | ';' | '\'' | '|' | '!' | ' ' => 0.34,
        'f' | 't' | 'r' | '(' | ')' | '[' | ']' | '/' | '-' | '"' => 0.42,
        'm' | 'w' | 'M' | 'W' | '@' | '%' | '…' => 0.96,
        'a'..='z' | '0'..='9' => 0.61,
        'A'..='Z' => 0.70,
        letter if letter.is_ascii() => 0.70,
        letter if letter < '\u{1100}' => 0.75,
        _ => 1.05,
    }
}

/// Returns `text`, cut to this width in pixels. A cut text ends in `…`.
pub(crate) fn fitted(text: &str, size: f64, most: f64) -> String {
    let text: String = text.chars().map(plain).collect();
    if width(&text, size) <= most {
        return text;
    }
    let mut left = most - width("…", size);
    let kept = text.chars().take_while(|&letter| {
        left -= em(letter) * size;
        left >= 0.0
    });
    let mut kept: String = kept.collect();
    kept.truncate(kept.trim_end().len());
    kept.push('…');
    kept
}

/// Returns `text` for XML, as content or in quotes.
pub(crate) fn escaped(text: &str) -> String {
    let mut out = String::with_capacity(text.len());
    for letter in text.chars().map(plain) {
        match letter {
            '&' => out.push_str("&amp;"),
            '<' => out.push_str("&lt;"),
            '>' => out.push_str("&gt;"),
            '"' => out.push_str("&quot;"),
            letter => out.push(letter),
        }
    }
    out
}

/// Returns a space for a letter that XML does not allow, and for the end of a line.
fn plain(letter: char) -> char {
    match letter {
        '\u{fffe}' | '\u{ffff}' => ' ',
        letter if letter.is_control() => ' ',
        letter => letter,
    }
}

/// Returns the first paragraph of a doc comment, in one line.
pub(crate) fn first_paragraph(docs: &str) -> String {
    let lines = docs.trim().lines().map(str::trim);
    let lines: Vec<_> = lines.take_while(|line| !line.is_empty()).collect();
    lines.join(" ")
}

/// Rounds to a tenth of a pixel. The result is never a negative zero.
pub(crate) fn tenth(value: f64) -> f64 {
    (value * 10.0).round() / 10.0 + 0.0
}

/// Formats a length, rounded to a tenth of a pixel.
pub(crate) fn number(value: f64) -> String {
    tenth(value).to_string()
}
