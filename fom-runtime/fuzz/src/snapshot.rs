//! Snapshots: of this release, and of an older one.

use fom_runtime::prelude::*;

use super::{memory::bounded, shop::Order};

/// Fuzzes a snapshot. The lowest two bits of the first byte say what surrounds the rest: nothing, or the magic number
/// and a correct checksum.
///
/// Either the snapshot is refused with an error, or its value can be saved and read again.
pub fn snapshot(bytes: &[u8]) {
    let Some((mode, rest)) = bytes.split_first() else {
        return;
    };
    let magic: &[u8] = match mode & 3 {
        0 => b"",
        _ => b"FOM2",
    };
    let mut whole = [magic, rest].concat();
    if !magic.is_empty() {
        whole.extend(crc32fast::hash(&whole).to_le_bytes());
    }
    bounded(bytes, || {
        let Ok(snapshot) = Snapshot::from_bytes(whole) else {
            return;
        };
        let _ = (snapshot.phase(), snapshot.machine(), snapshot.version());
        match Order::restore(&snapshot) {
            Err(error) => assert!(!error.to_string().is_empty()),
            Ok((order, phase)) => {
                let again = order.snapshot(&phase).map(|again| Order::restore(&again));
                // Not compared: a number may be NaN.
                assert!(matches!(again, Ok(Ok(_))), "{again:?}");
            }
        }
    });
}
