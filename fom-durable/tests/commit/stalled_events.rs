//! Events of an outbox while the journal fails: none is lost because its receiver stalled as well.

use fom_durable::prelude::*;
use fom_runtime::time::TestClock;
use serde::{Deserialize, Serialize};

use crate::kit::{held::Held, limited, one};

/// Sends a word to the listener when it is told to.
#[derive(Serialize, Deserialize)]
struct Speak;

#[derive(Debug)]
enum SpeakEvent {
    Now,
}

#[fom(operation(Speak), event(SpeakEvent))]
enum Speaking {
    #[phase(start, sync, to(Spoken), on(Now))]
    Ready,
    #[phase(end)]
    Spoken,
}

impl SpeakingTransitions for Speak {
    fn ready(
        &mut self,
        cx: &mut Cx<'_, SpeakEvent>,
        event: SpeakEvent,
    ) -> Result<SpeakingAfterReady, BoxError> {
        let SpeakEvent::Now = event;
        cx.outbox()
            .send::<Listen>("listener", ListenEvent::Word("sent".into()))?;
        Ok(SpeakingAfterReady::Spoken)
    }
}

/// Keeps words until it has two.
#[derive(Serialize, Deserialize)]
struct Listen {
    words: Vec<String>,
}

#[derive(Debug, Serialize, Deserialize)]
enum ListenEvent {
    Word(String),
}

#[fom(operation(Listen), event(ListenEvent))]
enum Listening {
    #[phase(start, sync, to(Heard), on(Word))]
    Hear,
    #[phase(end)]
    Heard,
}

impl ListeningTransitions for Listen {
    fn hear(
        &mut self,
        _: &mut Cx<'_, ListenEvent>,
        event: ListenEvent,
    ) -> Result<ListeningAfterHear, BoxError> {
        let ListenEvent::Word(word) = event;
        self.words.push(word);
        Ok(if self.words.len() < 2 {
            ListeningAfterHear::Stay
        } else {
            ListeningAfterHear::Heard
        })
    }
}

/// The sender's transition cannot be committed, and then the receiver's cannot, either. When there is room again both
/// are committed at once, the sender's first: the event waits for its receiver.
#[test]
fn an_event_waits_for_a_receiver_that_stalled_too() {
    limited(|| async {
        let journal = Held::default();
        let runtime = one(&TestClock::new())
            .journal_with(journal.clone())
            .build()
            .unwrap();
        let (tell, mut told) = tokio::sync::mpsc::unbounded_channel();
        let _listening = runtime.listen_to::<Listen>(move |heard| {
            if heard.to() == Some("Heard") {
                tell.send(heard.operation().words.clone()).unwrap();
            }
        });
        let listener = runtime.submit(Listen { words: vec![] }).key("listener");
        let listener = listener.start().unwrap();
        let speaker = runtime.submit(Speak).start().unwrap();
        runtime.quiet().await;
        journal.fail(true);
        speaker.send(SpeakEvent::Now).unwrap();
        assert!(matches!(
            speaker.await.unwrap_err().cause,
            Cause::Journal(_)
        ));
        let word = ListenEvent::Word("from outside".into());
        listener.send(word).unwrap();
        assert!(matches!(
            listener.await.unwrap_err().cause,
            Cause::Journal(_)
        ));
        journal.fail(false);
        assert_eq!(told.recv().await.unwrap(), ["from outside", "sent"]);
    });
}
