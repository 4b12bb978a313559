//! Which fom hangs, where, and for what? The listing shows waiting, sleeping, blocked and spinning foms without asking
//! them.
//!
//! `cargo run --example inspect`

use std::{
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
    },
    time::Duration,
};

use fom_runtime::prelude::*;

/// Hangs in one of four ways.
struct Visit {
    how: How,
    done: Arc<AtomicBool>,
}

#[derive(Clone, Copy)]
enum How {
    ForAnEvent,
    ForAnAnswer,
    InABlockingCall,
    Spinning,
}

enum Bell {
    Ring,
}

#[fom(operation(Visit), event(Bell), transient)]
#[derive(Debug)]
enum Visiting {
    #[phase(start, to(Door, Ask, Sleep, Spin))]
    Arrive,
    #[phase(to(Left), on(Ring), within = "1h")]
    Door,
    #[phase(to(Left))]
    Ask,
    #[phase(to(Left), blocking)]
    Sleep,
    #[phase(to(Left), sync)]
    Spin,
    #[phase(end)]
    Left,
}

impl VisitingTransitions for Visit {
    async fn arrive(&mut self, _: &mut Cx<'_, Bell>) -> Result<VisitingAfterArrive, BoxError> {
        Ok(match self.how {
            How::ForAnEvent => VisitingAfterArrive::Door,
            How::ForAnAnswer => VisitingAfterArrive::Ask,
            How::InABlockingCall => VisitingAfterArrive::Sleep,
            How::Spinning => VisitingAfterArrive::Spin,
        })
    }

    async fn door(&mut self, cx: &mut Cx<'_, Bell>) -> Result<(), BoxError> {
        cx.event().await;
        Ok(())
    }

    async fn ask(&mut self, cx: &mut Cx<'_, Bell>) -> Result<(), BoxError> {
        cx.call(|oracle: &Oracle, reply| oracle.ask(reply)).await?;
        Ok(())
    }

    fn sleep(&mut self, _: &mut BlockingCx<'_>) -> Result<(), BoxError> {
        while !self.done.load(Ordering::Relaxed) {
            std::thread::sleep(Duration::from_millis(1));
        }
        Ok(())
    }

    // Do not write this: it stops its locality, and no other fom there can run. But the listing shows it.
    fn spin(&mut self, _: &mut Cx<'_, Bell>) -> Result<(), BoxError> {
        while !self.done.load(Ordering::Relaxed) {
            std::thread::yield_now();
        }
        Ok(())
    }
}

/// A component that takes its time.
struct Oracle(std::sync::Mutex<Vec<Reply<u32>>>);

impl Oracle {
    fn ask(&self, reply: Reply<u32>) {
        self.0
            .lock()
            .expect("no panic while it is locked")
            .push(reply);
    }
}

#[tokio::main]
pub(crate) async fn main() -> Result<(), BoxError> {
    let runtime = Runtime::builder()
        .localities(2)
        .resource(Oracle(Default::default()))
        .history(8)
        .build()?;
    let done = Arc::new(AtomicBool::new(false));
    let mut handles = Vec::new();
    for (how, home) in [
        (How::ForAnEvent, 0),
        (How::ForAnAnswer, 0),
        (How::InABlockingCall, 0),
        (How::Spinning, 1),
    ] {
        let visit = Visit {
            how,
            done: Arc::clone(&done),
        };
        handles.push(
            runtime
                .submit(visit)
                .place(Placement::Locality(home))
                .key(format!("visitor {home}/{}", how as u8))
                .start()?,
        );
    }
    while runtime
        .operations()
        .foms
        .iter()
        .any(|fom| fom.times.in_phase < Duration::from_millis(50))
    {
        tokio::time::sleep(Duration::from_millis(10)).await;
    }

    let now = runtime.operations();
    println!("{now}");
    let stuck: Vec<_> = now
        .foms
        .iter()
        .filter(|fom| fom.times.in_phase > Duration::from_millis(20))
        .collect();
    for fom in &stuck {
        let key = fom
            .key
            .as_ref()
            .map(ToString::to_string)
            .unwrap_or_default();
        let way: Vec<_> = fom
            .past
            .history
            .iter()
            .map(|visited| visited.phase)
            .collect();
        println!(
            "{key}: {:?} in {}, came by {way:?}",
            fom.times.in_phase, fom.phase
        );
    }
    assert_eq!(stuck.len(), 4);

    done.store(true, Ordering::Relaxed);
    handles[0].send(Bell::Ring)?;
    handles[1].cancel();
    for handle in handles {
        match handle.await {
            Ok(ended) => println!("{:?}", ended.end),
            Err(failure) => println!("{failure}"),
        }
    }
    Ok(())
}
