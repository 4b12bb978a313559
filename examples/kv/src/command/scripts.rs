//! EVAL and EVALSHA: there is no Lua here, but the scripts with which clients lock are known, and each is a command on one key.

mod known;

use std::collections::{HashMap, VecDeque};
use std::sync::{Mutex, MutexGuard, PoisonError};

use super::Spec;
use crate::shard::Run;
use crate::wire::{Reply, Request, integer};

/// Other texts of known scripts whose hashes are remembered; beyond, the oldest is forgotten.
const REMEMBERED: usize = 256;
/// No script that is known is longer.
const LONGEST: usize = 4096;

/// How a request names a script.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum By {
    /// EVAL.
    Text,
    /// EVALSHA.
    Sha,
}

/// What a known script is: a command on one key.
#[derive(Debug)]
struct Script {
    spec: Spec,
    run: Run,
}

/// SHA-1, as clients write it: forty digits in lower case.
type Sha = String;

fn sha_of(text: &[u8]) -> Sha {
    sha1_smol::Sha1::from(text).digest().to_string()
}

/// The scripts that are known, by their hashes and by what they say.
#[derive(Debug)]
pub(crate) struct Scripts {
    by_sha: HashMap<Sha, &'static Script>,
    by_words: HashMap<Vec<u8>, &'static Script>,
    /// Those that were loaded whose text has other blanks, quotes or comments, the oldest first.
    loaded: Mutex<VecDeque<(Sha, &'static Script)>>,
}

impl Default for Scripts {
    fn default() -> Self {
        let all = || known::KNOWN.iter();
        let sha = |text: &str| sha_of(text.as_ref());
        Self {
            by_sha: all().map(|(text, script)| (sha(text), *script)).collect(),
            by_words: all()
                .map(|(text, script)| (words(text.as_bytes()), *script))
                .collect(),
            loaded: Mutex::default(),
        }
    }
}

impl Scripts {
    fn loaded(&self) -> MutexGuard<'_, VecDeque<(Sha, &'static Script)>> {
        // Nothing that is done under it leaves it half done.
        self.loaded.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn find(&self, sha: &[u8]) -> Option<&'static Script> {
        let sha = std::str::from_utf8(sha).ok()?.to_ascii_lowercase();
        let loaded = || {
            let loaded = self.loaded();
            let same = loaded.iter().find(|(other, _)| *other == sha);
            same.map(|(_, script)| *script)
        };
        self.by_sha.get(&sha).copied().or_else(loaded)
    }

    /// Its hash, and what it is. Remembers the hash.
    fn load(&self, text: &[u8]) -> Result<(Sha, &'static Script), Reply> {
        let known = || self.by_words.get(&words(text)).copied();
        let script = (text.len() <= LONGEST).then(known).flatten();
        let script = script.ok_or(UNKNOWN)?;
        let sha = sha_of(text);
        if self.find(sha.as_bytes()).is_none() {
            let mut loaded = self.loaded();
            loaded.push_back((sha.clone(), script));
            if loaded.len() > REMEMBERED {
                loaded.pop_front();
            }
        }
        Ok((sha, script))
    }

    /// The command that a script is, and its request: name, key, arguments.
    pub(crate) fn command(
        &self,
        by: By,
        request: Request,
    ) -> Result<(&'static Spec, Run, Request), Reply> {
        let script = match by {
            By::Text => self.load(request.word(1))?.1,
            By::Sha if request.word(1).len() != 40 => return Err(NO_SCRIPT),
            By::Sha => self.find(request.word(1)).ok_or(NO_SCRIPT)?,
        };
        let keys = integer(request.word(2)).ok_or(Reply::NOT_AN_INTEGER)?;
        let arguments = i64::try_from(request.len() - 3).unwrap_or(i64::MAX);
        if keys > arguments {
            return Err(Reply::error(
                "ERR Number of keys can't be greater than number of args",
            ));
        }
        if keys != 1 {
            return Err(Reply::error("ERR a lock script takes one key here"));
        }
        let request = request.without(1, 3);
        if request.len() < usize::from(script.spec.arity.unsigned_abs()) {
            return Err(Reply::error("ERR this lock script takes more arguments"));
        }
        Ok((&script.spec, script.run, request))
    }

    /// SCRIPT.
    pub(crate) fn about(&self, request: &Request) -> Reply {
        let which = request.word(1);
        match request.len() {
            3 if which.eq_ignore_ascii_case(b"load") => match self.load(request.word(2)) {
                Ok((sha, _)) => Reply::text(sha),
                Err(error) => error,
            },
            3.. if which.eq_ignore_ascii_case(b"exists") => {
                let is_known = |sha| Reply::Int(self.find(sha).is_some().into());
                Reply::Array(request.words_from(2).map(is_known).collect())
            }
            // What is built in stays.
            2 | 3 if which.eq_ignore_ascii_case(b"flush") => {
                self.loaded().clear();
                Reply::OK
            }
            _ => Reply::error("ERR there is: SCRIPT LOAD text, SCRIPT EXISTS sha .., SCRIPT FLUSH"),
        }
    }
}

/// As Redis says it: clients send the text then.
const NO_SCRIPT: Reply = Reply::error("NOSCRIPT No matching script. Please use EVAL.");

const UNKNOWN: Reply = Reply::error(
    "ERR there are no scripts here, except those with which known clients lock: see the README of kv",
);

/// What a script says, whatever its blanks, quotes, comments, and the case of what is in quotes.
fn words(script: &[u8]) -> Vec<u8> {
    let mut words: Vec<u8> = Vec::with_capacity(script.len());
    let (mut rest, mut quoted, mut blank) = (script, None, false);
    while let Some((&byte, after)) = rest.split_first() {
        rest = after;
        match (quoted, byte) {
            (None, b'-') if after.first() == Some(&b'-') => {
                let end = rest.iter().position(|byte| *byte == b'\n');
                rest = &rest[end.unwrap_or(rest.len())..];
                blank = true;
            }
            (None, _) if byte.is_ascii_whitespace() => blank = true,
            (Some(quote), _) if byte == quote => {
                words.push(b'"');
                quoted = None;
            }
            (Some(_), _) => words.push(byte.to_ascii_lowercase()),
            (None, _) => {
                let joins = |byte: &u8| byte.is_ascii_alphanumeric() || *byte == b'_';
                if blank && joins(&byte) && words.last().is_some_and(joins) {
                    words.push(b' ');
                }
                blank = false;
                if byte == b'"' || byte == b'\'' {
                    quoted = Some(byte);
                    words.push(b'"');
                } else {
                    words.push(byte);
                }
            }
        }
    }
    words
}

#[cfg(test)]
mod tests {
    use super::{By, REMEMBERED, Scripts, words};
    use crate::wire::{Reply, Request};

    const RELEASE: &str = "if redis.call('GET', KEYS[1]) == ARGV[1]\n then -- it is mine\n  \
                           return redis.call('DEL',KEYS[1]) else return 0 end\n";

    fn request(words: &[&str]) -> Request {
        let words: Vec<&[u8]> = words.iter().map(|word| word.as_bytes()).collect();
        Request::of(&words)
    }

    #[test]
    fn blanks_quotes_and_comments_make_no_other_script() {
        let is = |text: &str| String::from_utf8(words(text.as_bytes())).expect("a text");
        assert_eq!(is("a  b\n(c) -- d\ne"), "a b(c)e");
        assert_eq!(is("f('A b')"), is("f ( \"a b\" )"));
        assert_ne!(is("f(\"ab\")"), is("f(\"a b\")"));
        assert_ne!(is("return KEYS[1]"), is("return keys[1]"));
    }

    #[test]
    fn a_script_is_known_by_its_text_and_then_by_its_hash() {
        let scripts = Scripts::default();
        let sha = super::sha_of(RELEASE.as_bytes());
        let by_sha = || scripts.command(By::Sha, request(&["evalsha", &sha, "1", "k", "t"]));
        assert!(matches!(by_sha(), Err(Reply::Error(error)) if error.starts_with("NOSCRIPT")));
        let by_text = scripts.command(By::Text, request(&["eval", RELEASE, "1", "k", "t"]));
        let (spec, _, command) = by_text.expect("known");
        assert_eq!(command.words_from(1).collect::<Vec<_>>(), [b"k", b"t"]);
        let (same, ..) = by_sha().expect("remembered");
        assert!(std::ptr::eq(spec, same));
        scripts.about(&request(&["script", "flush"]));
        assert!(by_sha().is_err());
    }

    #[test]
    fn what_is_remembered_has_a_limit() {
        let scripts = Scripts::default();
        for blanks in 0..2 * REMEMBERED {
            let text = format!("{RELEASE}{}", " ".repeat(blanks));
            assert!(matches!(
                scripts.about(&request(&["script", "load", &text])),
                Reply::Bulk(_)
            ));
        }
        assert_eq!(scripts.loaded().len(), REMEMBERED);
    }

    #[test]
    fn other_scripts_are_refused() {
        let scripts = Scripts::default();
        for words in [
            &["eval", "return 1", "0"][..],
            &["eval", RELEASE, "2", "k", "l"],
            &["eval", RELEASE, "1", "k"],
            &["eval", RELEASE, "5", "k", "t"],
            &["eval", RELEASE, "x", "k", "t"],
        ] {
            assert!(
                scripts.command(By::Text, request(words)).is_err(),
                "{words:?}"
            );
        }
    }
}
