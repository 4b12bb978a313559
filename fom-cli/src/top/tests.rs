//! The frame of `fom top`, from the answers of a program and the keys of a user.

use ratatui::{
    Terminal,
    backend::TestBackend,
    crossterm::event::{KeyCode, KeyEvent, KeyModifiers},
    style::{Color, Modifier},
};
use serde_json::{Value, json};

use super::{
    draw,
    fetch::Answers,
    look::Look,
    model::{Flow, Model},
};
use crate::failure::Failure;

/// A machine of the summary.
fn machine(name: &str, in_flight: u64, started: Value) -> Value {
    json!({
        "type": name, "operation": name, "in_flight": in_flight, "failed": 17, "late": 212,
        "rates": {"started": {"10s": started}, "ended": {"10s": started}, "failed": {"10s": 0.004}},
    })
}

fn phase(name: &str, foms: u64, within: Value, is_end: bool) -> Value {
    json!({
        "phase": name, "foms": foms, "end": is_end, "deadline": {"within": within}, "p50": 2.2, "p99": 17.0, "p999": 29.0,
        "rates": {"in": {"10s": 98.0}, "out": {"10s": 97.0}},
    })
}

fn fom(id: u64, key: &str, in_phase: f64) -> Value {
    json!({
        "id": id, "operation": "Call", "key": key, "phase": "Ring", "state": "waiting", "blocked": false,
        "in_phase": in_phase, "age": in_phase + 0.4, "deadline_in": 139.8, "locality": 1, "bytes": 312,
        "waits": [{
            "text": "its key, held by Call 7 (key ada) in Talk", "waited": 11.6,
            "holders": [{"fom": 7, "name": "Call 7 (key ada) in Talk", "hold": "has"}],
        }],
        "attempts": [{"number": 1, "error": "no route", "age": 3.0}],
    })
}

fn warning(level: &str, subject: &str, ids: &[u64]) -> Value {
    json!({
        "level": level, "kind": "hung", "subject": subject, "ids": ids,
        "text": format!("1 fom has been in {subject} for up to 302s, waiting"),
        "common": ["waits for an event: Ack"], "advice": "find out why the sender does not send",
    })
}

/// The answers of a program under calls.
fn answers() -> Answers {
    Answers {
        summary: json!({
            "program": "session-router", "pid": 4711, "now": 11640.2, "in_flight": 4851, "queued": 12, "quarantine": 1,
            "incidents": 2,
            "machines": [machine("Call", 4812, json!(98.2)), machine("Registration", 39, Value::Null)],
        }),
        machine: json!({
            "type": "Call", "operation": "Call",
            "phases": [
                phase("Locate", 2, Value::Null, false), phase("Ring", 318, json!(181.0), false),
                phase("Talk", 4492, Value::Null, false), phase("Record", 0, Value::Null, true),
            ],
        }),
        foms: json!({
            "page": [
                fom(1191, "b7f2-1191@a", 41.2), fom(2260, "b7f2-2260@a", 30.0), fom(2310, "b7f2-2310@c", 29.1),
                fom(2415, "b7f2-2415@a", 12.8), fom(2416, "b7f2-2416@a", 12.7), fom(2571, "b7f2-2571@b", 4.4),
                fom(2580, "b7f2-2580@b", 4.1), fom(2611, "b7f2-2611@a", 3.9), fom(2639, "b7f2-2639@a", 3.2),
            ],
            "groups": [
                {"operation": "Call", "phase": "Ring", "oldest": [{"id": 1191, "in_phase": 41.2}]},
                {"operation": "Call", "phase": "Talk", "oldest": [{"id": 7, "in_phase": 926.0}]},
                {"operation": "Registration", "phase": "Ring", "oldest": [{"id": 8, "in_phase": 999.0}]},
            ],
        }),
        localities: json!({
            "localities": [
                {"index": 0, "foms": 2391, "ready": 0, "busy": [0.38, 0.41], "measured": {"running": 0.0004, "running_fom": 9}},
                {"index": 1, "foms": 2460, "ready": 17, "busy": [1.0], "measured": {"running": 12.1, "running_fom": 5}},
            ],
        }),
        warnings: json!({
            "warnings": [warning("severe", "Call in Ring", &[1191, 2260]), warning("warning", "Call in Talk", &[7])],
        }),
        trouble: None,
    }
}

/// A model with these answers.
fn model(answers: Answers) -> Model {
    let mut model = Model::new(Look::plain());
    model.take(Ok(answers));
    model
}

fn press(model: &mut Model, keys: &[KeyCode]) -> Flow {
    let press = |key: &KeyCode| model.key(KeyEvent::new(*key, KeyModifiers::NONE));
    keys.iter().map(press).last().unwrap_or(Flow::On)
}

/// The screen of a terminal of this size.
fn screen(model: &Model, width: u16, height: u16) -> TestBackend {
    let mut terminal = Terminal::new(TestBackend::new(width, height)).unwrap();
    let draw =
        |frame: &mut ratatui::Frame<'_>| draw::frame(model, frame.area(), frame.buffer_mut());
    terminal.draw(draw).unwrap();
    terminal.backend().clone()
}

#[test]
fn a_frame_has_machines_phases_foms_localities_and_warnings() {
    let mut model = model(answers());
    insta::assert_snapshot!("program", screen(&model, 80, 24));
    press(&mut model, &[KeyCode::Down]);
    insta::assert_snapshot!("wide", screen(&model, 120, 30));
    insta::assert_snapshot!("low", screen(&model, 60, 12));
}

#[test]
fn the_book_shows_this_frame() {
    let page = include_str!("../../../book/src/command-line.md");
    let frame = super::lines(&model(answers()), super::SIZE).join("\n");
    assert!(page.contains(&frame), "{frame}");
}

#[test]
fn enter_shows_a_fom_or_a_warning_alone() {
    let mut model = model(answers());
    press(&mut model, &[KeyCode::Down, KeyCode::Enter]);
    insta::assert_snapshot!("fom", screen(&model, 80, 24));
    press(
        &mut model,
        &[KeyCode::Esc, KeyCode::Tab, KeyCode::End, KeyCode::Enter],
    );
    insta::assert_snapshot!("warning", screen(&model, 80, 24));
    assert_eq!(press(&mut model, &[KeyCode::Esc]), Flow::On);
    assert_eq!(press(&mut model, &[KeyCode::Esc]), Flow::End);
}

#[test]
fn a_program_that_is_away_leaves_its_last_frame_and_the_reason() {
    let mut model = model(answers());
    model.take(Err(Failure::Away(
        "no program answers at http://127.0.0.1:7070".into(),
    )));
    let screen = screen(&model, 80, 24).to_string();
    assert!(
        screen.contains("not up to date: no program answers"),
        "{screen}"
    );
    assert!(screen.contains("b7f2-1191@a"), "{screen}");
    model.take(Ok(answers()));
    assert_eq!(model.trouble, None);
}

#[test]
fn the_choice_stays_with_its_row_while_rows_move() {
    let mut model = model(answers());
    press(&mut model, &[KeyCode::BackTab]);
    assert_eq!((model.row(), model.wanted()), (Some(0), None));
    press(&mut model, &[KeyCode::Down]);
    assert_eq!(
        (model.row(), model.wanted()),
        (Some(1), Some("Registration"))
    );
    let mut moved = answers();
    let machines = moved.summary["machines"].as_array_mut().unwrap();
    machines.insert(0, machine("Admission", 5, Value::Null));
    model.take(Ok(moved));
    assert_eq!(
        (model.row(), model.wanted()),
        (Some(2), Some("Registration"))
    );
    press(&mut model, &[KeyCode::Down, KeyCode::Down]);
    assert_eq!(model.row(), Some(2));
    // The machine is gone: the first one is chosen.
    let mut fewer = answers();
    fewer.summary["machines"].as_array_mut().unwrap().pop();
    model.take(Ok(fewer));
    assert_eq!(model.row(), Some(0));
}

#[test]
fn the_choice_stays_with_a_warning_among_others_about_its_subject() {
    let detailed = |detail: &str| {
        let mut warning = warning("warning", "Call in Ring", &[7]);
        warning["detail"] = detail.into();
        warning
    };
    let with = |details: &[&str]| {
        let warnings: Vec<_> = details.iter().map(|one| detailed(one)).collect();
        let warnings = json!({"warnings": warnings});
        Answers {
            warnings,
            ..answers()
        }
    };
    let mut model = model(with(&["ready", "waiting: event"]));
    press(&mut model, &[KeyCode::Tab, KeyCode::Down]);
    assert_eq!(model.row(), Some(1));
    model.take(Ok(with(&["blocked", "ready", "waiting: event"])));
    assert_eq!(model.row(), Some(2));
}

#[test]
fn a_pause_keeps_the_frame() {
    let mut model = model(answers());
    press(&mut model, &[KeyCode::Char('p')]);
    model.take(Ok(Answers::default()));
    assert_eq!(model.snapshot.machines.len(), 2);
    press(&mut model, &[KeyCode::Char('p')]);
    model.take(Ok(Answers::default()));
    assert_eq!(model.snapshot.machines.len(), 0);
    assert_eq!(model.row(), None);
    press(
        &mut model,
        &[KeyCode::Down, KeyCode::Tab, KeyCode::Up, KeyCode::Enter],
    );
    assert!(model.open().is_none());
    let control = KeyEvent::new(KeyCode::Char('c'), KeyModifiers::CONTROL);
    assert_eq!(model.key(control), Flow::End);
    assert_eq!(press(&mut model, &[KeyCode::Char('q')]), Flow::End);
}

#[test]
fn without_colours_a_frame_says_the_same_by_marks() {
    let model = model(answers());
    let plain = screen(&model, 80, 24);
    let cells = plain.buffer().content.iter();
    assert!(
        cells
            .clone()
            .all(|cell| cell.fg == Color::Reset && cell.bg == Color::Reset)
    );
    assert!(
        cells
            .clone()
            .any(|cell| cell.modifier.contains(Modifier::BOLD))
    );
    // The phase Talk has a fom that is older than p99.9.
    assert!(plain.to_string().contains("15m26s !"), "{plain}");
}

#[test]
fn answers_without_sense_and_sizes_without_room_panic_nowhere() {
    let odd = || json!({"machines": 7, "phases": [null, {"deadline": 3}], "page": [[]], "localities": [{"busy": ["x"]}]});
    let hostile = Answers {
        summary: json!({
            "machines": [
                {"type": "\u{1b}[2J\u{9b}evil\n", "in_flight": -1, "rates": "x"},
                {"type": "", "in_flight": u64::MAX, "ended": u64::MAX, "rates": {"started": {"10s": 1e300}}},
            ],
            "now": 1e300, "pid": u64::MAX,
        }),
        machine: odd(),
        foms: odd(),
        localities: json!({"localities": [{"busy": [1e9], "foms": "many", "measured": {"running": -1, "running_fom": 1}}, null]}),
        warnings: json!({"warnings": [null, {"ids": ["x", -1], "level": 7, "common": [1]}, []]}),
        trouble: Some("x".repeat(10_000)),
    };
    for answers in [answers(), hostile, Answers::default()] {
        let mut model = model(answers);
        for keys in [
            &[][..],
            &[KeyCode::Enter],
            &[KeyCode::Tab, KeyCode::Enter],
            &[KeyCode::BackTab, KeyCode::BackTab, KeyCode::Enter],
        ] {
            press(&mut model, keys);
            for width in [0, 1, 39, 40, 80, 200] {
                for height in [0, 1, 7, 8, 24, 60] {
                    let screen = screen(&model, width, height);
                    let cells = screen.buffer().content.iter();
                    let is_control =
                        |cell: &ratatui::buffer::Cell| cell.symbol().contains(char::is_control);
                    assert!(!cells.clone().any(is_control), "{screen}");
                }
            }
        }
    }
}
