//! The task in front: takes datagrams from the socket and passes each to the task of its call.

use std::panic::catch_unwind;
use std::sync::Arc;

use rsipstack::sip::Method;
use tokio::net::UdpSocket;
use tokio::sync::mpsc;

use super::{MAILBOX, Shared, call};
use crate::call::{Call, CallEvent};
use crate::front::{ALLOW, answer, proxy_require};
use crate::places::Place;
use crate::registrar::Registration;
use crate::wire::message::{Message, Request, address};
use crate::wire::parse::{Fault, parse};

pub(super) async fn receive(shared: Arc<Shared>, socket: UdpSocket) {
    let mut buffer = vec![0; 65_536];
    loop {
        // An error means that an earlier datagram found no receiver.
        if let Ok((length, source)) = socket.recv_from(&mut buffer).await {
            datagram(&shared, &buffer[..length], source);
        }
    }
}

fn datagram(shared: &Arc<Shared>, datagram: &[u8], source: std::net::SocketAddr) {
    let counters = shared.net.counters();
    counters.received.add();
    let read = catch_unwind(|| parse(datagram, source)).unwrap_or(Err(Fault::Drop("panicked")));
    match read {
        Ok(Message::Request(request)) => take(shared, request),
        Ok(Message::Response(response)) => {
            let ours = response.sent_by == shared.net.local().to_string();
            let call = ours.then(|| find(shared, &response.call_id)).flatten();
            deliver(shared, call, CallEvent::Response(response));
        }
        Err(Fault::Answer { to, bytes, .. }) => {
            counters.refused.add();
            shared.net.send(&bytes, to);
        }
        Err(Fault::Drop(_)) => counters.dropped.add(),
    }
}

fn take(shared: &Arc<Shared>, request: Box<Request>) {
    if request.reply_to.port() == 0 {
        return shared.net.counters().dropped.add();
    }
    let call = find(shared, &request.call_id);
    match (request.method(), call) {
        (Method::Ack, call) => deliver(shared, call, CallEvent::Ack(request)),
        (Method::Cancel, None) => answer(&shared.net, &request, 481, ""),
        (Method::Cancel, call) => deliver(shared, call, CallEvent::Cancel(request)),
        (Method::Register, _) => register(shared, request),
        (_, None) => without_call(shared, request),
        (_, call) => deliver(shared, call, CallEvent::Request(request)),
    }
}

fn without_call(shared: &Arc<Shared>, request: Box<Request>) {
    let net = &shared.net;
    if request.to_tag.is_some() {
        return answer(net, &request, 481, "");
    }
    let for_us = request.user().is_none() && address(&request.sip.uri) == Some(net.local());
    match request.method() {
        Method::Options if for_us => answer(net, &request, 200, ALLOW),
        _ if request.max_forwards == 0 => answer(net, &request, 483, ""),
        Method::Invite => invite(shared, request),
        _ => answer(net, &request, 405, ALLOW),
    }
}

/// Begins a new call. Only this task begins calls, so no other task can have begun this one meanwhile.
fn invite(shared: &Arc<Shared>, invite: Box<Request>) {
    if let Some(wanted) = proxy_require(&invite) {
        let more = format!("Unsupported: {wanted}\r\n");
        return answer(&shared.net, &invite, 420, &more);
    }
    let mut calls = shared.calls();
    if calls.len() >= shared.settings.capacity {
        drop(calls);
        shared.net.counters().overloaded.add();
        return answer(&shared.net, &invite, 503, "Retry-After: 5\r\n");
    }
    let (sender, inbox) = mpsc::channel(MAILBOX);
    calls.insert(invite.call_id.clone(), sender);
    drop(calls);
    shared.net.counters().calls.add();
    let call = Call::new(
        shared.net.clone(),
        Place::default(),
        shared.settings.timers,
        invite,
    );
    tokio::spawn(call::run(Arc::clone(shared), call, inbox));
}

fn register(shared: &Shared, request: Box<Request>) {
    let registration = Registration::new(
        shared.net.clone(),
        request.source.ip().into(),
        request,
        shared.settings.shortest,
    );
    match registration.wishes() {
        Ok(update) => {
            let updated = shared.table().update(update, shared.now());
            let _ = registration.updated(updated);
        }
        Err(status) => {
            registration.refuse_wishes(status);
        }
    }
}

fn find(shared: &Shared, call_id: &str) -> Option<mpsc::Sender<CallEvent>> {
    shared.calls().get(call_id).cloned()
}

fn deliver(shared: &Shared, call: Option<mpsc::Sender<CallEvent>>, event: CallEvent) {
    if call.is_none_or(|call| call.try_send(event).is_err()) {
        shared.net.counters().stray.add();
    }
}
