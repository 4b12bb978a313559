//! The state that all clients share.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use crate::client::{Clients, Memory};
use crate::live::{Live, SettingError};
use crate::places::Places;
use crate::rate::RateLimit;
use crate::save::{Log, Save};
use crate::server::Settings;
use crate::shard::Wall;

/// The state that all clients share.
#[derive(Debug)]
pub(crate) struct Common {
    pub(crate) settings: Settings,
    pub(crate) live: Live,
    pub(crate) rate: RateLimit,
    pub(crate) places: Arc<Places>,
    pub(crate) log: Option<Arc<Log>>,
    pub(crate) clients: Clients,
    pub(crate) memory: Arc<Memory>,
    pub(crate) wall: Wall,
    pub(crate) stopping: AtomicBool,
}

impl Common {
    /// Returns whether the server ends.
    pub(crate) fn is_stopping(&self) -> bool {
        self.stopping.load(Ordering::Acquire)
    }

    /// Returns the name of the save mode.
    pub(crate) fn save_mode(&self) -> &'static str {
        match (&self.log, self.settings.save) {
            (None, _) => "none",
            (Some(_), Save::Always) => "always",
            (Some(_), Save::EverySecond) => "everysec",
        }
    }

    /// Changes a setting.
    pub(crate) fn configure(&self, name: &[u8], value: &[u8]) -> Result<(), SettingError> {
        if let Some(done) = self.rate.set(name, value) {
            return done;
        }
        self.live.set(name, value)?;
        // The limit may be lower than before.
        self.memory.keep_limit();
        Ok(())
    }

    /// Returns the settings with matching names, and their values.
    pub(crate) fn configuration(&self, pattern: &[u8]) -> Vec<(&'static str, String)> {
        let mut all = vec![
            ("save", String::new()),
            (
                "appendonly",
                if self.log.is_some() { "yes" } else { "no" }.to_owned(),
            ),
            ("appendfsync", self.save_mode().to_owned()),
            ("databases", "1".to_owned()),
            ("proto-max-bulk-len", self.settings.limits.bulk.to_string()),
        ];
        all.extend(self.live.all());
        all.extend(self.rate.all());
        let pattern = pattern.to_ascii_lowercase();
        all.retain(|(name, _)| crate::shard::keys::fits(&pattern, name.as_bytes()));
        all
    }
}
