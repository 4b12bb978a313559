//! EVAL and EVALSHA without Lua: the server knows the scripts for locks. Each of them is a command on one key.

use super::{Kind, Spec};
use crate::shard::{Run, locks};
use crate::wire::{Reply, Request, integer};

/// The longest script that the server hashes. No known script is longer.
const LONGEST: usize = 4096;

/// How a request names a script.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum By {
    /// EVAL.
    Text,
    /// EVALSHA.
    Sha,
}

/// The command that a known script stands for.
#[derive(Debug)]
struct Script {
    spec: Spec,
    run: Run,
}

const fn lock(arity: i16, run: Run) -> Script {
    let spec = Spec {
        name: "eval",
        arity,
        writes: true,
        kind: Kind::Key(run),
    };
    Script { spec, run }
}

/// Arguments: the token.
static RELEASE: Script = lock(3, locks::release);
/// Arguments: the token, milliseconds.
static PEXPIRE: Script = lock(4, locks::pexpire);
/// Arguments: the token, milliseconds, and `0` to add them to the time that is left.
static EXTEND: Script = lock(5, locks::extend);
/// Arguments: the token, milliseconds.
static ACQUIRE: Script = lock(4, locks::acquire);
/// Arguments: the token, milliseconds.
static SET_AGAIN: Script = lock(4, locks::set_again);

/// The known scripts by the SHA-1 of their text, in lower case. A text with other blanks has another SHA-1.
static KNOWN: &[(&str, &Script)] = &[
    // Redis's documentation: the pattern of distributed locks, the same in one line, and the page of SET.
    ("647c65a442733a1aa440f99908d249d13b4d6c4a", &RELEASE),
    ("b70c2384248f88e6b75b9f89241a180f856ad852", &RELEASE),
    ("bd75051e9049411d4a96c0df196ac2667d38f481", &RELEASE),
    // PyPI's redis 8.1: `Lock.release`, `Lock.extend` and `Lock.reacquire`.
    ("c3f8721cbb97f72bc19e972846bd7aaf91901658", &RELEASE),
    ("a4e8783852e6b949f9ef3a97212805108459a890", &EXTEND),
    ("1cac51482acf5858da00f6d685d68f886cd6b6b2", &PEXPIRE),
    // npm's redlock 4.2: `lock`, `unlock` and `extend`.
    ("e5a322e2634ef59a516e8ea150cb085afafee684", &ACQUIRE),
    ("0f0f23b9048b36752b5be114f357ba083449f908", &RELEASE),
    ("ce46f80993d5dac20dd066eb301a4e37994bdbed", &SET_AGAIN),
    // npm's redlock 5.0.0-beta.2, the same.
    ("96da70f7716f27d278a5218544df37fd8b0a5e4c", &ACQUIRE),
    ("e4612211c9f8f51c257e26e056b0a654b3187242", &RELEASE),
    ("aed6f382e410db8ba7926d4e5e9aab410bf2a78a", &SET_AGAIN),
    // The crate rslock: `unlock` and `extend`.
    ("daf86bbf8740dd3ca86733367a016364b2110627", &RELEASE),
    ("17a49af0c4b1a9034503fa84f3570f5ca76c4cbf", &SET_AGAIN),
];

fn find(sha: &[u8]) -> Option<&'static Script> {
    let mut known = KNOWN.iter();
    let (_, script) = known.find(|(known, _)| sha.eq_ignore_ascii_case(known.as_bytes()))?;
    Some(script)
}

/// Returns the SHA-1 of a known script, and its command.
fn read(text: &[u8]) -> Result<(String, &'static Script), Reply> {
    if text.len() > LONGEST {
        return Err(UNKNOWN);
    }
    let sha = sha1_smol::Sha1::from(text).digest().to_string();
    let script = find(sha.as_bytes()).ok_or(UNKNOWN)?;
    Ok((sha, script))
}

/// Returns the command of a script, and its request: name, key, arguments.
pub(crate) fn command(by: By, request: Request) -> Result<(&'static Spec, Run, Request), Reply> {
    let script = match by {
        By::Text => read(request.word(1))?.1,
        By::Sha => find(request.word(1)).ok_or(NO_SCRIPT)?,
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
pub(crate) fn about(request: &Request) -> Reply {
    let which = request.word(1);
    match request.len() {
        3 if which.eq_ignore_ascii_case(b"load") => match read(request.word(2)) {
            Ok((sha, _)) => Reply::text(sha),
            Err(error) => error,
        },
        3.. if which.eq_ignore_ascii_case(b"exists") => {
            let is_known = |sha| Reply::Int(find(sha).is_some().into());
            Reply::Array(request.words_from(2).map(is_known).collect())
        }
        // The server never forgets the known scripts.
        2 | 3 if which.eq_ignore_ascii_case(b"flush") => Reply::OK,
        _ => Reply::error("ERR there is: SCRIPT LOAD text, SCRIPT EXISTS sha .., SCRIPT FLUSH"),
    }
}

/// Redis's words, on which clients send the text.
const NO_SCRIPT: Reply = Reply::error("NOSCRIPT No matching script. Please use EVAL.");

const UNKNOWN: Reply = Reply::error(
    "ERR there are no scripts here, except those with which known clients lock: see the README of kv",
);

#[cfg(test)]
mod tests {
    use super::{By, KNOWN, about, command};
    use crate::wire::{Reply, Request};

    const RELEASE: &str = "if redis.call(\"get\",KEYS[1]) == ARGV[1]\nthen\n    \
                           return redis.call(\"del\",KEYS[1])\nelse\n    return 0\nend";

    fn request(words: &[&str]) -> Request {
        let words: Vec<&[u8]> = words.iter().map(|word| word.as_bytes()).collect();
        Request::of(&words)
    }

    #[test]
    fn a_script_is_known_by_its_text_and_by_its_hash() {
        let by_text = command(By::Text, request(&["eval", RELEASE, "1", "k", "t"]));
        let (spec, _, made) = by_text.expect("known");
        assert_eq!(made.words_from(1).collect::<Vec<_>>(), [b"k", b"t"]);
        let Reply::Bulk(sha) = about(&request(&["script", "load", RELEASE])) else {
            panic!("not known")
        };
        for sha in [&sha[..], &sha.to_ascii_uppercase()] {
            let words = [b"evalsha", sha, b"1", b"k", b"t"];
            let (same, ..) = command(By::Sha, Request::of(&words)).expect("known");
            assert!(std::ptr::eq(spec, same));
        }
    }

    #[test]
    fn no_hash_is_there_twice_or_cannot_be_one() {
        for (at, (sha, _)) in KNOWN.iter().enumerate() {
            let digit = |byte: u8| matches!(byte, b'0'..=b'9' | b'a'..=b'f');
            assert!(sha.len() == 40 && sha.bytes().all(digit), "{sha}");
            assert!(KNOWN[..at].iter().all(|(other, _)| other != sha), "{sha}");
        }
    }

    #[test]
    fn other_scripts_are_refused() {
        let (blank, long) = (format!("{RELEASE} "), " ".repeat(1 << 20));
        for words in [
            &["eval", "return 1", "0"][..],
            &["eval", &blank, "1", "k", "t"],
            &["eval", &long, "1", "k", "t"],
            &["eval", RELEASE, "2", "k", "l"],
            &["eval", RELEASE, "1", "k"],
            &["eval", RELEASE, "5", "k", "t"],
            &["eval", RELEASE, "x", "k", "t"],
        ] {
            assert!(command(By::Text, request(words)).is_err(), "{words:?}");
        }
        let unknown = command(By::Sha, request(&["evalsha", &"0".repeat(40), "1", "k"]));
        assert!(matches!(unknown, Err(Reply::Error(error)) if error.starts_with("NOSCRIPT")));
    }
}
