//! What a node does when another node calls it.

use std::sync::Arc;

use crate::{
    call::{Message, Reply, decode, encode},
    network::Serve,
    node::Node,
    operate::operate,
    route::serve_owned,
    slot::Slot,
};

/// Returns what serves the requests of other nodes.
pub(crate) fn serves(node: &Arc<Node>) -> Serve {
    let node = Arc::downgrade(node);
    Arc::new(move |request| {
        let node = node.upgrade();
        Box::pin(async move {
            let reply = match (node, decode(&request)) {
                (Some(node), Ok(message)) => serve(&node, message).await,
                (None, _) => Reply::Moved,
                (_, Err(why)) => Reply::Failed(why),
            };
            encode(&reply)
        })
    })
}

async fn serve(node: &Arc<Node>, message: Message) -> Reply {
    match message {
        Message::Ask(request) => match node.serving(Slot(request.slot)) {
            Some(serving) => serve_owned(node, serving, request).await,
            None => Reply::Moved,
        },
        Message::Wake => {
            node.wake();
            Reply::Done
        }
        Message::Operate(what) => operate(node, what).await,
    }
}
