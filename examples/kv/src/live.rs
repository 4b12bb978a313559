//! Settings that change while the server runs: CONFIG SET.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use crate::server::Settings;

/// The reason why a setting was refused.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub(crate) enum SettingError {
    /// There is no setting of this name.
    #[error("Unknown option or number of arguments for CONFIG SET")]
    Unknown,
    /// The value is not a number, or is not a sensible one.
    #[error("CONFIG SET failed - argument must be a number that is not below zero")]
    NoNumber,
    /// The number is too small.
    #[error("CONFIG SET failed - argument must be at least {0}")]
    TooSmall(u64),
    /// The value is not an allowed word.
    #[error("CONFIG SET failed - argument must be wait or reject")]
    NoMode,
}

/// The lowest limit for all clients together. With less, a single client cannot work.
pub(crate) const LEAST_MEMORY: u64 = 1 << 20;

/// Settings that change while the server runs.
#[derive(Debug)]
pub(crate) struct Live {
    clients: AtomicU64,
    unread: AtomicU64,
    idle: AtomicU64,
    memory: Arc<AtomicU64>,
}

impl Live {
    pub(crate) fn new(settings: &Settings) -> Self {
        let memory = (settings.clients_memory as u64).max(LEAST_MEMORY);
        Self {
            clients: AtomicU64::new(settings.clients as u64),
            unread: AtomicU64::new(settings.unread as u64),
            idle: AtomicU64::new(settings.idle.map_or(0, |idle| idle.as_secs())),
            memory: Arc::new(AtomicU64::new(memory)),
        }
    }

    /// Each setting with its name and its lowest value.
    fn named(&self) -> [(&'static str, &AtomicU64, u64); 4] {
        [
            ("maxclients", &self.clients, 0),
            ("client-unread-limit", &self.unread, 0),
            ("timeout", &self.idle, 0),
            ("maxmemory-clients", &self.memory, LEAST_MEMORY),
        ]
    }

    /// Returns how many bytes all clients together may take, data aside.
    pub(crate) fn memory(&self) -> &Arc<AtomicU64> {
        &self.memory
    }

    /// Returns the most clients at a time.
    pub(crate) fn clients(&self) -> usize {
        self.clients.load(Ordering::Relaxed) as usize
    }

    /// Returns the most bytes that a client may leave unread.
    pub(crate) fn unread(&self) -> usize {
        self.unread.load(Ordering::Relaxed) as usize
    }

    /// Returns the longest time that a client may be silent.
    pub(crate) fn idle(&self) -> Option<Duration> {
        let seconds = self.idle.load(Ordering::Relaxed);
        (seconds > 0).then(|| Duration::from_secs(seconds))
    }

    /// Returns all settings, as text.
    pub(crate) fn all(&self) -> Vec<(&'static str, String)> {
        self.named()
            .iter()
            .map(|(name, value, _)| (*name, value.load(Ordering::Relaxed).to_string()))
            .collect()
    }

    /// Changes a setting.
    pub(crate) fn set(&self, name: &[u8], value: &[u8]) -> Result<(), SettingError> {
        let named = self.named();
        let (_, setting, least) = named
            .iter()
            .find(|(known, ..)| name.eq_ignore_ascii_case(known.as_bytes()))
            .ok_or(SettingError::Unknown)?;
        let value = crate::wire::integer(value)
            .and_then(|value| u64::try_from(value).ok())
            .ok_or(SettingError::NoNumber)?;
        if value < *least {
            return Err(SettingError::TooSmall(*least));
        }
        setting.store(value, Ordering::Relaxed);
        Ok(())
    }
}
