//! The shop's own database: what is in stock, and what is sent. Each change happens once, for a step key or for an order.

use std::{
    path::Path,
    sync::{Arc, Mutex},
};

use fom_runtime::context::StepKey;
use rusqlite::{Connection, OptionalExtension, TransactionBehavior, params};

/// The database. SQLite has one writer at a time, so a lock around the connection costs nothing. Clones have the same connection.
#[derive(Clone, Debug)]
pub struct Shop(Arc<Mutex<Connection>>);

const TABLES: &str = "
    PRAGMA journal_mode = WAL;
    PRAGMA synchronous = FULL;
    CREATE TABLE IF NOT EXISTS stock (item TEXT PRIMARY KEY, pieces INTEGER NOT NULL CHECK (pieces >= 0));
    CREATE TABLE IF NOT EXISTS reservations (
        step TEXT PRIMARY KEY, reference TEXT NOT NULL UNIQUE, item TEXT NOT NULL, pieces INTEGER NOT NULL
    );
    CREATE TABLE IF NOT EXISTS parcels (number INTEGER PRIMARY KEY, reference TEXT NOT NULL UNIQUE);
";

impl Shop {
    /// Opens the database, and makes its tables.
    pub fn open(path: &Path) -> rusqlite::Result<Self> {
        let connection = Connection::open(path)?;
        connection.execute_batch(TABLES)?;
        Ok(Self(Arc::new(Mutex::new(connection))))
    }

    /// Sets the stock of an item that the database does not know.
    pub fn stock(&self, item: &str, pieces: u32) -> rusqlite::Result<()> {
        let connection = self.0.lock().unwrap();
        let add = "INSERT OR IGNORE INTO stock VALUES (?1, ?2)";
        connection.execute(add, params![item, pieces]).map(drop)
    }

    /// Reserves pieces of an item for an order. Returns `false` if there are too few. The step key makes a repeated
    /// call return what the first one did.
    pub fn reserve(
        &self,
        step: StepKey,
        reference: &str,
        item: &str,
        pieces: u32,
    ) -> rusqlite::Result<bool> {
        let mut connection = self.0.lock().unwrap();
        let change = connection.transaction_with_behavior(TransactionBehavior::Immediate)?;
        let add = "INSERT OR IGNORE INTO reservations VALUES (?1, ?2, ?3, ?4)";
        let is_new = change.execute(add, params![step.to_string(), reference, item, pieces])? > 0;
        let take = "UPDATE stock SET pieces = pieces - ?2 WHERE item = ?1 AND pieces >= ?2";
        if is_new && change.execute(take, params![item, pieces])? == 0 {
            return Ok(false); // rolls back
        }
        change.commit().map(|()| true)
    }

    /// Gives the reserved pieces of an order back. A second call finds no reservation, and does nothing.
    pub fn release(&self, reference: &str) -> rusqlite::Result<()> {
        let mut connection = self.0.lock().unwrap();
        let change = connection.transaction_with_behavior(TransactionBehavior::Immediate)?;
        let find = "DELETE FROM reservations WHERE reference = ?1 RETURNING item, pieces";
        let found: Option<(String, u32)> = change
            .query_row(find, [reference], |row| Ok((row.get(0)?, row.get(1)?)))
            .optional()?;
        if let Some((item, pieces)) = found {
            let give = "UPDATE stock SET pieces = pieces + ?2 WHERE item = ?1";
            change.execute(give, params![item, pieces])?;
        }
        change.commit()
    }

    /// Sends the parcel of an order, and returns its number. An order has one parcel: a repeated call returns the same
    /// number.
    pub fn send(&self, reference: &str) -> rusqlite::Result<i64> {
        let connection = self.0.lock().unwrap();
        let add = "INSERT OR IGNORE INTO parcels (reference) VALUES (?1)";
        connection.execute(add, [reference])?;
        let find = "SELECT number FROM parcels WHERE reference = ?1";
        connection.query_row(find, [reference], |row| row.get(0))
    }

    /// Counts the pieces of an item: in stock, and reserved.
    pub fn count(&self, item: &str) -> rusqlite::Result<(u32, u32)> {
        let connection = self.0.lock().unwrap();
        let stock = "SELECT pieces FROM stock WHERE item = ?1";
        let stock = connection.query_row(stock, [item], |row| row.get(0))?;
        let reserved = "SELECT COALESCE(SUM(pieces), 0) FROM reservations WHERE item = ?1";
        let reserved = connection.query_row(reserved, [item], |row| row.get(0))?;
        Ok((stock, reserved))
    }

    /// Lists the orders with a parcel, in the order of the parcels.
    pub fn parcels(&self) -> rusqlite::Result<Vec<String>> {
        let connection = self.0.lock().unwrap();
        let mut find = connection.prepare("SELECT reference FROM parcels ORDER BY number")?;
        let found = find.query_map([], |row| row.get(0))?;
        found.collect()
    }
}
