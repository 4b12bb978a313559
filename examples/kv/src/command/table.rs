//! Every command: its name, its number of words, and the function that runs it.

use std::sync::LazyLock;

use fom_patterns::lock::LockMode;

use super::By;
use crate::shard::{Run, Shard, Side, keys, lists, strings};
use crate::wire::{Reply, Request};

/// A command.
#[derive(Debug)]
pub(crate) struct Spec {
    pub(crate) name: &'static str,
    /// The number of words, with the name. A negative number is a minimum.
    pub(crate) arity: i16,
    pub(crate) writes: bool,
    pub(crate) kind: Kind,
}

/// The subject of a command.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Kind {
    /// The key that is its first argument.
    Key(Run),
    /// Several keys, one every so many words. The replies are combined.
    Keys(Run, usize, Together),
    /// All keys.
    All(fn(&mut Shard, &Request) -> Reply, Together),
    /// An element of one of several lists. The command waits for it.
    Pop(Side),
    /// The client, or the server.
    OfClient(OfClient),
    /// The command of a known script.
    Script(By),
}

/// How the replies of the parts of a command are combined.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Together {
    /// Their sum.
    Sum,
    /// All replies, in order.
    Each,
    /// One list of the elements of all lists.
    Joined,
    /// `+OK`.
    Ok,
}

impl Together {
    /// Returns whether the reply of a single part is the reply of the command.
    pub(crate) fn is_of_one(self) -> bool {
        matches!(self, Together::Sum | Together::Ok)
    }

    /// Combines replies. The first error becomes the reply.
    pub(crate) fn put(self, replies: Vec<Reply>) -> Reply {
        if let Some(error) = replies
            .iter()
            .find(|reply| matches!(reply, Reply::Error(_)))
            && !matches!(self, Together::Each)
        {
            return error.clone();
        }
        match self {
            Together::Each => Reply::Array(replies),
            Together::Ok => Reply::OK,
            Together::Sum => Reply::Int(replies.iter().fold(0, |sum, reply| match reply {
                Reply::Int(number) => sum + number,
                _ => sum,
            })),
            Together::Joined => Reply::Array(
                replies
                    .into_iter()
                    .flat_map(|reply| match reply {
                        Reply::Array(replies) => replies,
                        other => vec![other],
                    })
                    .collect(),
            ),
        }
    }
}

/// Commands about the client or the server.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum OfClient {
    Hello,
    Auth,
    Reset,
    Script,
    Ping,
    Echo,
    Select,
    Quit,
    Command,
    Config,
    Client,
    Info,
    Time,
    Scan,
    Fom,
    Multi,
    Exec,
    Discard,
    Watch,
    Unwatch,
}

const fn read(name: &'static str, arity: i16, run: Run) -> Spec {
    Spec {
        name,
        arity,
        writes: false,
        kind: Kind::Key(run),
    }
}

const fn write(name: &'static str, arity: i16, run: Run) -> Spec {
    Spec {
        name,
        arity,
        writes: true,
        kind: Kind::Key(run),
    }
}

const fn of_client(name: &'static str, arity: i16, what: OfClient) -> Spec {
    Spec {
        name,
        arity,
        writes: false,
        kind: Kind::OfClient(what),
    }
}

const fn spec(name: &'static str, arity: i16, writes: bool, kind: Kind) -> Spec {
    Spec {
        name,
        arity,
        writes,
        kind,
    }
}

/// All commands, by name.
static TABLE: &[Spec] = &[
    write("append", 3, strings::append),
    of_client("auth", -2, OfClient::Auth),
    spec("blpop", -3, true, Kind::Pop(Side::Left)),
    spec("brpop", -3, true, Kind::Pop(Side::Right)),
    of_client("client", -2, OfClient::Client),
    of_client("command", -1, OfClient::Command),
    of_client("config", -2, OfClient::Config),
    spec("dbsize", 1, false, Kind::All(keys::dbsize, Together::Sum)),
    write("decr", 2, strings::decr),
    write("decrby", 3, strings::decrby),
    spec("del", -2, true, Kind::Keys(keys::del, 1, Together::Sum)),
    of_client("discard", 1, OfClient::Discard),
    of_client("echo", 2, OfClient::Echo),
    spec("eval", -3, true, Kind::Script(By::Text)),
    spec("evalsha", -3, true, Kind::Script(By::Sha)),
    of_client("exec", 1, OfClient::Exec),
    spec(
        "exists",
        -2,
        false,
        Kind::Keys(keys::exists, 1, Together::Sum),
    ),
    write("expire", 3, keys::expire),
    write("expireat", 3, keys::expireat),
    spec("flushall", -1, true, Kind::All(keys::flush, Together::Ok)),
    spec("flushdb", -1, true, Kind::All(keys::flush, Together::Ok)),
    of_client("fom", -2, OfClient::Fom),
    read("get", 2, strings::get),
    write("getdel", 2, strings::getdel),
    write("getset", 3, strings::getset),
    of_client("hello", -1, OfClient::Hello),
    write("incr", 2, strings::incr),
    write("incrby", 3, strings::incrby),
    of_client("info", -1, OfClient::Info),
    spec("keys", 2, false, Kind::All(keys::keys, Together::Joined)),
    read("lindex", 3, lists::lindex),
    read("llen", 2, lists::llen),
    write("lpop", -2, lists::lpop),
    write("lpush", -3, lists::lpush),
    read("lrange", 4, lists::lrange),
    spec(
        "mget",
        -2,
        false,
        Kind::Keys(strings::get_if_text, 1, Together::Each),
    ),
    spec(
        "mset",
        -3,
        true,
        Kind::Keys(strings::set_plain, 2, Together::Ok),
    ),
    of_client("multi", 1, OfClient::Multi),
    write("persist", 2, keys::persist),
    write("pexpire", 3, keys::pexpire),
    write("pexpireat", 3, keys::pexpireat),
    of_client("ping", -1, OfClient::Ping),
    write("psetex", 4, strings::psetex),
    read("pttl", 2, keys::pttl),
    of_client("quit", -1, OfClient::Quit),
    of_client("reset", 1, OfClient::Reset),
    write("rpop", -2, lists::rpop),
    write("rpush", -3, lists::rpush),
    of_client("scan", -2, OfClient::Scan),
    of_client("script", -2, OfClient::Script),
    of_client("select", 2, OfClient::Select),
    write("set", -3, strings::set),
    write("setex", 4, strings::setex),
    write("setnx", 3, strings::setnx),
    read("strlen", 2, strings::strlen),
    of_client("time", 1, OfClient::Time),
    read("ttl", 2, keys::ttl),
    read("type", 2, keys::r#type),
    spec("unlink", -2, true, Kind::Keys(keys::del, 1, Together::Sum)),
    of_client("unwatch", 1, OfClient::Unwatch),
    of_client("watch", -2, OfClient::Watch),
];

const INITIALS: usize = 32;

/// The commands by the first letter of their names. Each request looks a command up, and a search through all of them
/// would show in measurements.
static BY_INITIAL: LazyLock<[Vec<&'static Spec>; INITIALS]> = LazyLock::new(|| {
    std::array::from_fn(|initial| {
        let begins = |spec: &&Spec| usize::from(spec.name.as_bytes()[0]) % INITIALS == initial;
        TABLE.iter().filter(begins).collect()
    })
});

/// All commands, by name.
pub(crate) fn table() -> &'static [Spec] {
    TABLE
}

/// Returns the command of a request, if its number of words is right.
pub(crate) fn find(request: &Request) -> Result<&'static Spec, Reply> {
    let mut lower = [0; 16];
    let name = request.word(0);
    let found = lower.get_mut(..name.len()).and_then(|lower| {
        lower.copy_from_slice(name);
        lower.make_ascii_lowercase();
        let initial = usize::from(*lower.first()?) % INITIALS;
        let same = |spec: &&&'static Spec| spec.name.as_bytes() == &*lower;
        BY_INITIAL[initial].iter().find(same).copied()
    });
    let Some(spec) = found else {
        return Err(unknown(request));
    };
    let (len, arity) = (request.len(), usize::from(spec.arity.unsigned_abs()));
    let fits = if spec.arity > 0 {
        len == arity
    } else {
        len >= arity
    };
    // MSET and the like: keys and values in turn, and complete.
    let pairs = match spec.kind {
        Kind::Keys(_, stride, _) => (len - 1) % stride == 0,
        _ => true,
    };
    if fits && pairs {
        Ok(spec)
    } else {
        Err(wrong_number(spec.name))
    }
}

/// The reply to a command with too many or too few words.
pub(crate) fn wrong_number(name: &str) -> Reply {
    Reply::Error(format!("ERR wrong number of arguments for '{name}' command").into())
}

fn unknown(request: &Request) -> Reply {
    let shown = |word: &[u8]| word[..word.len().min(128)].escape_ascii().to_string();
    let mut text = format!(
        "ERR unknown command '{}', with args beginning with: ",
        shown(request.word(0))
    );
    for word in request.words_from(1) {
        if text.len() > 256 {
            break;
        }
        text.push_str(&format!("'{}' ", shown(word)));
    }
    Reply::Error(text.into())
}

impl Spec {
    /// Returns the mode in which the command locks its keys.
    pub(crate) fn lock_mode(&self) -> LockMode {
        if self.writes {
            LockMode::Write
        } else {
            LockMode::Read
        }
    }

    /// Returns the places of the keys in a request.
    pub(crate) fn keys(&self, request: &Request) -> impl Iterator<Item = usize> + use<> {
        let (end, stride) = match self.kind {
            Kind::Key(_) => (2, 1),
            Kind::Keys(_, stride, _) => (request.len(), stride),
            // The last word is the time to wait.
            Kind::Pop(_) => (request.len().saturating_sub(1), 1),
            Kind::All(..) | Kind::OfClient(_) | Kind::Script(_) => (1, 1),
        };
        (1..end).step_by(stride)
    }
}

#[cfg(test)]
mod tests {
    use super::{TABLE, find};
    use crate::wire::{Reply, Request};

    #[test]
    fn the_table_is_in_order() {
        assert!(TABLE.is_sorted_by(|a, b| a.name < b.name));
    }

    #[test]
    fn a_command_is_found_whatever_its_case() {
        let found = |words: &[&str]| {
            let words: Vec<&[u8]> = words.iter().map(|word| word.as_bytes()).collect();
            find(&Request::of(&words)).map(|spec| spec.name)
        };
        assert_eq!(found(&["GeT", "k"]), Ok("get"));
        for wrong in [
            &["get"][..],
            &["get", "a", "b"],
            &["mset", "a"],
            &["mset", "a", "1", "b"],
        ] {
            let Err(Reply::Error(error)) = found(wrong) else {
                panic!("{wrong:?} was taken");
            };
            assert!(
                error.starts_with("ERR wrong number of arguments for '"),
                "{error}"
            );
        }
        assert!(found(&["nonesuch\r\n+OK", "k"]).is_err());
    }
}
