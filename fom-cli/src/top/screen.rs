//! The terminal: keys go to the model, and its frames to the screen.

use std::{io, sync::mpsc, thread, time::Duration};

use ratatui::{
    DefaultTerminal,
    crossterm::event::{self, Event, KeyEventKind},
};

use super::{
    draw,
    fetch::Answers,
    model::{Flow, Model},
};
use crate::{client::Client, failure::Failure};

/// The time between two snapshots. The rates of the program change as often.
const STEP: Duration = Duration::from_secs(2);
/// How long a snapshot waits for its frame.
const LOOK: Duration = Duration::from_millis(200);

type Taken = Result<Answers, Failure>;

/// Shows the model until the user ends it.
pub(super) fn run(client: Client, model: Model) -> io::Result<()> {
    let (to, answers) = mpsc::channel();
    let (wish, wishes) = mpsc::channel();
    let fetching = thread::Builder::new().name("fom-top".into());
    // The thread ends when the other ends of the channels are gone.
    fetching.spawn(move || fetch(&client, &wishes, &to))?;
    let mut terminal = ratatui::try_init()?;
    let ended = follow(&mut terminal, model, &answers, &wish);
    ratatui::restore();
    ended
}

/// Asks the program again and again, and at once when the user wants another machine.
fn fetch(client: &Client, wishes: &mpsc::Receiver<Option<String>>, to: &mpsc::Sender<Taken>) {
    let mut wanted: Option<String> = None;
    loop {
        match wishes.recv_timeout(STEP) {
            Ok(wish) => wanted = wishes.try_iter().last().unwrap_or(wish),
            Err(mpsc::RecvTimeoutError::Timeout) => {}
            Err(mpsc::RecvTimeoutError::Disconnected) => return,
        }
        let answers = Answers::fetch(client, wanted.as_deref());
        if to.send(answers).is_err() {
            return;
        }
    }
}

fn follow(
    terminal: &mut DefaultTerminal,
    mut model: Model,
    answers: &mpsc::Receiver<Taken>,
    wish: &mpsc::Sender<Option<String>>,
) -> io::Result<()> {
    loop {
        terminal.draw(|frame| draw::frame(&model, frame.area(), frame.buffer_mut()))?;
        if event::poll(LOOK)?
            && let Event::Key(key) = event::read()?
            && key.kind != KeyEventKind::Release
        {
            let before = model.wanted().map(str::to_owned);
            if model.key(key) == Flow::End {
                return Ok(());
            }
            let wanted = model.wanted().map(str::to_owned);
            if wanted != before {
                // An error means that the thread panicked. The frame stays old then.
                let _ = wish.send(wanted);
            }
        }
        answers.try_iter().for_each(|taken| model.take(taken));
    }
}
