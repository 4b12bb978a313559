//! Servers over real sockets of this machine.

mod kit;
mod tcp;
mod udp;

/// A server can be a part of what threads share.
#[test]
fn servers_are_send_and_sync() {
    fn shared<T: Send + Sync>() {}
    shared::<fom_net::UdpServer>();
    shared::<fom_net::TcpServer>();
    shared::<fom_net::UdpSender>();
}
