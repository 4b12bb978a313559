//! Several pieces in one input: a number, a length, and that many bytes, repeated. Any bytes are an archive.

/// Returns the pieces with their numbers. The last one may be cut short.
pub fn unpack(mut bytes: &[u8]) -> Vec<(u8, &[u8])> {
    let mut pieces = Vec::new();
    while let [number, low, high, rest @ ..] = bytes {
        let length = usize::from(u16::from_le_bytes([*low, *high])).min(rest.len());
        let (piece, rest) = rest.split_at(length);
        pieces.push((*number, piece));
        bytes = rest;
    }
    pieces
}

/// Returns the bytes from which [`unpack`] makes these pieces. No piece is longer than 65,535 bytes.
pub fn pack<'a>(pieces: impl IntoIterator<Item = (u8, &'a [u8])>) -> Vec<u8> {
    let mut bytes = Vec::new();
    for (number, piece) in pieces {
        let piece = &piece[..piece.len().min(usize::from(u16::MAX))];
        bytes.push(number);
        bytes.extend((piece.len() as u16).to_le_bytes());
        bytes.extend(piece);
    }
    bytes
}
