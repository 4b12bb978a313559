//! How many datagrams the kernel dropped for a socket. No system call returns that count.

use std::fs;
use std::io;
use std::net::UdpSocket;
use std::os::fd::AsRawFd as _;

/// The tables of all UDP sockets of this process's network.
const TABLES: [&str; 2] = ["/proc/self/net/udp", "/proc/self/net/udp6"];

/// How many datagrams for this socket the kernel has dropped so far: its buffer was full, or their checksum was wrong.
///
/// The inode identifies the socket, so other sockets with the same address do no harm.
///
/// # Errors
///
/// The system has no such table. Linux has it.
pub(crate) fn dropped(socket: &UdpSocket) -> io::Result<u64> {
    let link = fs::read_link(format!("/proc/self/fd/{}", socket.as_raw_fd()))?;
    let link = link.to_string_lossy();
    let inode = link
        .strip_prefix("socket:[")
        .and_then(|link| link.strip_suffix(']'));
    let inode = inode.ok_or(io::ErrorKind::NotFound)?;
    for table in TABLES {
        let Ok(text) = fs::read_to_string(table) else {
            continue; // one without IPv6
        };
        if let Some(drops) = find(&text, inode) {
            return Ok(drops);
        }
    }
    Err(io::ErrorKind::NotFound.into())
}

/// The last field of the socket with this inode.
fn find(table: &str, inode: &str) -> Option<u64> {
    let mut lines = table.lines().skip(1);
    let line = lines.find(|line| line.split_whitespace().nth(9) == Some(inode))?;
    line.split_whitespace().nth(12)?.parse().ok()
}

#[cfg(test)]
mod tests {
    use socket2::SockRef;

    use super::*;

    #[test]
    fn the_socket_is_found_by_its_inode() {
        let table = "  sl  local_address rem_address   st tx_queue rx_queue tr tm->when retrnsmt   uid  timeout inode ref pointer drops\n\
            20: 0100007F:13C4 00000000:0000 07 00000000:00000000 00:00000000 00000000     0        0 4711 2 0000000000000000 12\n\
            21: 0100007F:13C5 00000000:0000 07 00000000:00000000 00:00000000 00000000     0        0 4712 2 0000000000000000 0\n";
        assert_eq!(find(table, "4711"), Some(12));
        assert_eq!(find(table, "4712"), Some(0));
        assert_eq!(find(table, "47"), None);
    }

    #[test]
    fn what_finds_the_buffer_full_is_counted() {
        for address in ["127.0.0.1:0", "[::1]:0"] {
            let Ok(socket) = UdpSocket::bind(address) else {
                continue; // a machine without IPv6
            };
            SockRef::from(&socket)
                .set_recv_buffer_size(4096)
                .expect("a small buffer");
            let at = socket.local_addr().expect("an address");
            let sender = UdpSocket::bind((at.ip(), 0)).expect("a port");
            for _ in 0..100 {
                sender.send_to(&[0; 500], at).expect("sent");
            }
            socket.set_nonblocking(true).expect("set");
            let mut buffer = [0; 500];
            let received = std::iter::from_fn(|| socket.recv(&mut buffer).ok()).count() as u64;
            let dropped = dropped(&socket).expect("Linux");
            assert!(dropped > 0);
            assert_eq!(received + dropped, 100);
        }
    }
}
