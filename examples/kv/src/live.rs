//! Settings that change while the server runs: CONFIG SET.

use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

/// Why a setting was not taken.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub(crate) enum SettingError {
    /// There is none of this name.
    #[error("Unknown option or number of arguments for CONFIG SET")]
    Unknown,
    /// It is no number, or one that makes no sense.
    #[error("CONFIG SET failed - argument must be a number that is not below zero")]
    NoNumber,
    /// It is none of its words.
    #[error("CONFIG SET failed - argument must be wait or reject")]
    NoMode,
}

/// Settings that change while the server runs.
#[derive(Debug)]
pub(crate) struct Live {
    clients: AtomicU64,
    unread: AtomicU64,
    idle: AtomicU64,
}

impl Live {
    pub(crate) fn new(clients: usize, unread: usize, idle: Option<Duration>) -> Self {
        Self {
            clients: AtomicU64::new(clients as u64),
            unread: AtomicU64::new(unread as u64),
            idle: AtomicU64::new(idle.map_or(0, |idle| idle.as_secs())),
        }
    }

    fn named(&self) -> [(&'static str, &AtomicU64); 3] {
        [
            ("maxclients", &self.clients),
            ("client-unread-limit", &self.unread),
            ("timeout", &self.idle),
        ]
    }

    /// The most clients at a time.
    pub(crate) fn clients(&self) -> usize {
        self.clients.load(Ordering::Relaxed) as usize
    }

    /// The most bytes that a client may leave unread.
    pub(crate) fn unread(&self) -> usize {
        self.unread.load(Ordering::Relaxed) as usize
    }

    /// How long a client may say nothing.
    pub(crate) fn idle(&self) -> Option<Duration> {
        let seconds = self.idle.load(Ordering::Relaxed);
        (seconds > 0).then(|| Duration::from_secs(seconds))
    }

    /// All of them, as text.
    pub(crate) fn all(&self) -> Vec<(&'static str, String)> {
        self.named()
            .iter()
            .map(|(name, value)| (*name, value.load(Ordering::Relaxed).to_string()))
            .collect()
    }

    /// Changes one.
    pub(crate) fn set(&self, name: &[u8], value: &[u8]) -> Result<(), SettingError> {
        let named = self.named();
        let (_, setting) = named
            .iter()
            .find(|(known, _)| name.eq_ignore_ascii_case(known.as_bytes()))
            .ok_or(SettingError::Unknown)?;
        let value = crate::wire::integer(value)
            .and_then(|value| u64::try_from(value).ok())
            .ok_or(SettingError::NoNumber)?;
        setting.store(value, Ordering::Relaxed);
        Ok(())
    }
}
