//! Inline commands: lines that a user types into a terminal.

/// Splits a line into words, by Redis's rules for quotes. Returns `None` if the quotes do not close.
pub(super) fn words(line: &[u8]) -> Option<Vec<Vec<u8>>> {
    let mut words = Vec::new();
    let mut rest = line;
    loop {
        rest = rest.trim_ascii_start();
        if rest.is_empty() {
            return Some(words);
        }
        let (word, after) = word(rest)?;
        words.push(word);
        rest = after;
    }
}

fn word(mut rest: &[u8]) -> Option<(Vec<u8>, &[u8])> {
    let mut word = Vec::new();
    while let Some((&byte, after)) = rest.split_first() {
        if byte.is_ascii_whitespace() {
            break;
        }
        rest = match byte {
            b'"' => double_quoted(after, &mut word)?,
            b'\'' => single_quoted(after, &mut word)?,
            _ => {
                word.push(byte);
                after
            }
        };
        let closed = matches!(byte, b'"' | b'\'');
        if closed && rest.first().is_some_and(|next| !next.is_ascii_whitespace()) {
            return None;
        }
    }
    Some((word, rest))
}

fn double_quoted<'a>(mut rest: &'a [u8], word: &mut Vec<u8>) -> Option<&'a [u8]> {
    loop {
        match rest {
            [b'"', after @ ..] => return Some(after),
            [b'\\', b'x', high, low, after @ ..]
                if high.is_ascii_hexdigit() && low.is_ascii_hexdigit() =>
            {
                let digit = |byte: &u8| char::from(*byte).to_digit(16).unwrap_or(0) as u8;
                word.push(digit(high) << 4 | digit(low));
                rest = after;
            }
            [b'\\', escaped, after @ ..] => {
                word.push(match escaped {
                    b'n' => b'\n',
                    b'r' => b'\r',
                    b't' => b'\t',
                    b'b' => 8,
                    b'a' => 7,
                    other => *other,
                });
                rest = after;
            }
            [byte, after @ ..] => {
                word.push(*byte);
                rest = after;
            }
            [] => return None,
        }
    }
}

fn single_quoted<'a>(mut rest: &'a [u8], word: &mut Vec<u8>) -> Option<&'a [u8]> {
    loop {
        match rest {
            [b'\'', after @ ..] => return Some(after),
            [b'\\', b'\'', after @ ..] => {
                word.push(b'\'');
                rest = after;
            }
            [byte, after @ ..] => {
                word.push(*byte);
                rest = after;
            }
            [] => return None,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::words;

    #[test]
    fn words_are_split_as_redis_splits_them() {
        let split = |line: &str| words(line.as_bytes());
        let is = |line, expected: &[&str]| {
            let expected: Vec<Vec<u8>> =
                expected.iter().map(|word| word.as_bytes().into()).collect();
            assert_eq!(split(line), Some(expected), "{line}");
        };
        is("  get   k ", &["get", "k"]);
        is("set k \"a b\\n\\x41\"", &["set", "k", "a b\nA"]);
        is("set k 'it\\'s'", &["set", "k", "it's"]);
        is("", &[]);
        for unbalanced in ["set k \"a", "set k 'a", "set \"a\"b c"] {
            assert_eq!(split(unbalanced), None, "{unbalanced}");
        }
    }
}
