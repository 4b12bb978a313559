//! The first commands of a client: HELLO, AUTH, and its name.

use super::admin::{VERSION, is};
use super::{Client, Connection};
use crate::wire::{Protocol, Reply, Request, integer};

/// The longest name of a client.
const LONGEST: usize = 256;

impl Connection {
    /// HELLO: changes the version of the protocol, and describes the server. A wrong word changes nothing.
    pub(super) fn hello(&mut self, request: &Request) -> Reply {
        let options = match Options::of(request, self.line.protocol()) {
            Ok(options) => options,
            Err(error) => return error,
        };
        if let Some(name) = options.name
            && let error @ Reply::Error(_) = set_name(&self.me, name)
        {
            return error;
        }
        self.speak(options.protocol);
        let text = |text: &'static str| Reply::text(text);
        Reply::Map(vec![
            // Clients look for this name.
            (text("server"), text("redis")),
            (text("version"), text(VERSION)),
            (text("proto"), Reply::Int(options.protocol.number())),
            (text("id"), Reply::Int(self.me.id as i64)),
            (text("mode"), text("standalone")),
            (text("role"), text("master")),
            (text("modules"), Reply::Array(Vec::new())),
        ])
    }

    /// RESET: brings the connection back to its first state.
    pub(super) fn reset(&mut self) -> Reply {
        self.multi = None;
        let watched = std::mem::take(&mut self.watched);
        self.forget(watched);
        self.me.about().name.clear();
        self.speak(Protocol::default());
        Reply::Status("RESET")
    }

    fn speak(&mut self, protocol: Protocol) {
        self.line.speak(protocol);
        self.me.about().protocol = protocol;
    }
}

/// The arguments of HELLO.
struct Options<'a> {
    protocol: Protocol,
    name: Option<&'a [u8]>,
}

impl<'a> Options<'a> {
    fn of(request: &'a Request, now: Protocol) -> Result<Self, Reply> {
        let mut options = Self {
            protocol: now,
            name: None,
        };
        if request.len() > 1 {
            options.protocol = match integer(request.word(1)) {
                Some(2) => Protocol::Resp2,
                Some(3) => Protocol::Resp3,
                Some(_) => return Err(Reply::error("NOPROTO unsupported protocol version")),
                None => {
                    let what = "ERR Protocol version is not an integer or out of range";
                    return Err(Reply::error(what));
                }
            };
        }
        let mut words = request.words_from(2);
        while let Some(option) = words.next() {
            if is(option, "auth")
                && let (Some(user), Some(_)) = (words.next(), words.next())
            {
                check(user)?;
            } else if is(option, "setname")
                && let Some(name) = words.next()
            {
                options.name = Some(name);
            } else {
                let shown = option[..option.len().min(128)].escape_ascii();
                let what = format!("ERR Syntax error in HELLO option '{shown}'");
                return Err(Reply::Error(what.into()));
            }
        }
        Ok(options)
    }
}

/// The one user needs no password: any password is right.
fn check(user: &[u8]) -> Result<(), Reply> {
    if user == b"default" {
        return Ok(());
    }
    Err(Reply::error(
        "WRONGPASS invalid username-password pair or user is disabled.",
    ))
}

/// AUTH.
pub(super) fn auth(request: &Request) -> Reply {
    match request.len() {
        2 => Reply::error(
            "ERR AUTH <password> called without any password configured for the default user. \
             Are you sure your configuration is correct?",
        ),
        3 => check(request.word(1)).err().unwrap_or(Reply::OK),
        _ => Reply::SYNTAX,
    }
}

/// CLIENT SETNAME.
pub(super) fn set_name(me: &Client, name: &[u8]) -> Reply {
    match text(name) {
        Some(name) => me.about().name = name,
        None => {
            return Reply::error(
                "ERR Client names cannot contain spaces, newlines or special characters.",
            );
        }
    }
    Reply::OK
}

/// CLIENT SETINFO: the name and the version of the library.
pub(super) fn set_info(me: &Client, what: &[u8], value: &[u8]) -> Reply {
    let Some(value) = text(value) else {
        return Reply::error(
            "ERR lib-name and lib-ver cannot contain spaces, newlines or special characters.",
        );
    };
    let mut about = me.about();
    if is(what, "lib-name") {
        about.library = value;
    } else if is(what, "lib-ver") {
        about.library_version = value;
    } else {
        let shown = what[..what.len().min(128)].escape_ascii();
        return Reply::Error(format!("ERR Unrecognized option '{shown}'").into());
    }
    Reply::OK
}

/// Returns the word as text, if it can appear in a line of CLIENT LIST.
fn text(word: &[u8]) -> Option<String> {
    let fits = word.len() <= LONGEST && word.iter().all(u8::is_ascii_graphic);
    fits.then(|| String::from_utf8_lossy(word).into_owned())
}
