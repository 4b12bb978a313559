//! Sockets that share one address.

use std::{
    io,
    net::{SocketAddr, TcpListener, UdpSocket},
};

use socket2::{Domain, Protocol, Socket, Type};

/// The connections that the kernel keeps until they are accepted.
const BACKLOG: i32 = 1024;

/// Binds this number of UDP sockets to one address, for [`serve_udp`](crate::serve_udp). The kernel gives all datagrams of one
/// sender to one of them. With port 0, the first socket chooses the port. A count of
/// zero is one.
///
/// Only Linux spreads datagrams over sockets. On other systems there is one socket, whatever the count.
///
/// # Errors
///
/// Fails if the address is not one of this machine, or is taken. With several sockets (`SO_REUSEPORT`), the address is not
/// taken for programs of the same user that share it in the same way.
pub fn bind_udp(address: SocketAddr, count: usize) -> io::Result<Vec<UdpSocket>> {
    bind_all(address, count, (Type::DGRAM, Protocol::UDP), |_| Ok(()))
}

/// Binds this number of TCP listeners to one address, for [`serve_tcp`](crate::serve_tcp). The kernel gives each connection to
/// one of them. With port 0, the first listener chooses the port. A connection that is not accepted when its listener
/// closes is lost. A count of zero is one.
///
/// Only Linux spreads connections over listeners. On other systems there is one listener, whatever the count.
///
/// # Errors
///
/// Fails if the address is not one of this machine, or is taken. With several sockets (`SO_REUSEPORT`), the address is not
/// taken for programs of the same user that share it in the same way.
pub fn bind_tcp(address: SocketAddr, count: usize) -> io::Result<Vec<TcpListener>> {
    bind_all(address, count, (Type::STREAM, Protocol::TCP), |socket| {
        socket.listen(BACKLOG)
    })
}

fn bind_all<S: From<Socket>>(
    mut address: SocketAddr,
    count: usize,
    (kind, protocol): (Type, Protocol),
    prepare: impl Fn(&Socket) -> io::Result<()>,
) -> io::Result<Vec<S>> {
    let count = match cfg!(target_os = "linux") {
        true => count.max(1),
        false => 1,
    };
    let mut sockets = Vec::with_capacity(count);
    for _ in 0..count {
        let socket = Socket::new(Domain::for_address(address), kind, Some(protocol))?;
        #[cfg(unix)]
        if kind == Type::STREAM {
            // A server that starts again does not wait for the connections of the last one.
            socket.set_reuse_address(true)?;
        }
        #[cfg(target_os = "linux")]
        if count > 1 {
            socket.set_reuse_port(true)?;
        }
        socket.set_nonblocking(true)?;
        socket.bind(&address.into())?;
        prepare(&socket)?;
        if let Some(bound) = socket.local_addr()?.as_socket() {
            address = bound;
        }
        sockets.push(S::from(socket));
    }
    Ok(sockets)
}
