//! A client of the language server protocol, with what the tests ask of rust-analyzer.

use std::{
    io::{BufRead, BufReader, Write},
    path::{Path, PathBuf},
    process::{Child, ChildStdin, Command, Stdio},
    sync::mpsc::{Receiver, channel},
    time::Duration,
};

use serde_json::{Value, json};

/// The longest wait for one message. The first one comes when the sources are loaded.
const PATIENCE: Duration = Duration::from_secs(120);

/// A running rust-analyzer with one open file.
pub(super) struct Editor {
    server: Child,
    to_server: ChildStdin,
    from_server: Receiver<Value>,
    file: String,
    text: String,
    version: u64,
    last: u64,
}

impl Drop for Editor {
    fn drop(&mut self) {
        let _ = self.server.kill();
        let _ = self.server.wait();
    }
}

/// A place in the text: line and column, from 0.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct Place {
    pub(super) line: u64,
    pub(super) column: u64,
}

impl Place {
    /// Returns the only place of `with_mark` in the text. A `|` in it marks the place, and is not in the text.
    pub(super) fn of(text: &str, with_mark: &str) -> Self {
        let (before, after) = with_mark.split_once('|').expect("a mark");
        let pattern = format!("{before}{after}");
        let mut found = text.match_indices(&pattern);
        let (start, _) = found
            .next()
            .unwrap_or_else(|| panic!("`{pattern}` is in the text"));
        assert!(found.next().is_none(), "`{pattern}` is there once");
        let before = &text[..start + before.len()];
        let line = before.matches('\n').count() as u64;
        let column = before.len() - before.rfind('\n').map_or(0, |end| end + 1);
        Self {
            line,
            column: column as u64,
        }
    }

    fn from_json(place: &Value) -> Self {
        let number = |key: &str| place[key].as_u64().expect("a number");
        Self {
            line: number("line"),
            column: number("character"),
        }
    }

    fn to_json(self) -> Value {
        json!({ "line": self.line, "character": self.column })
    }

    fn offset(self, text: &str) -> usize {
        let lines = text.split_inclusive('\n').take(self.line as usize);
        lines.map(str::len).sum::<usize>() + self.column as usize
    }
}

impl Editor {
    /// Starts the server on the project in `folder`, and waits until the project is loaded.
    pub(super) fn open(binary: &Path, folder: &Path, project: &Value, server: &Path) -> Self {
        let mut child = Command::new(binary)
            .current_dir(folder)
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::null())
            .spawn()
            .expect("rust-analyzer starts");
        let to_server = child.stdin.take().expect("a pipe");
        let mut output = BufReader::new(child.stdout.take().expect("a pipe"));
        let (sender, from_server) = channel();
        std::thread::spawn(move || {
            while let Some(message) = receive(&mut output) {
                if sender.send(message).is_err() {
                    break;
                }
            }
        });
        let path: PathBuf = folder.join("machine.rs");
        let text = std::fs::read_to_string(&path).expect("the file");
        let mut editor = Self {
            server: child,
            to_server,
            from_server,
            file: format!("file://{}", path.display()),
            text,
            version: 1,
            last: 0,
        };
        let answer = editor.ask(
            "initialize",
            json!({
                "processId": std::process::id(),
                "rootUri": format!("file://{}", folder.display()),
                "capabilities": {
                    "experimental": { "serverStatusNotification": true },
                    "textDocument": {
                        "definition": { "linkSupport": false },
                        "hover": { "contentFormat": ["markdown"] },
                    },
                },
                "initializationOptions": {
                    "linkedProjects": [project],
                    "checkOnSave": false,
                    "cachePriming": { "enable": false },
                    "procMacro": { "enable": true, "server": server },
                },
            }),
        );
        answer.expect("rust-analyzer is ready");
        editor.tell("initialized", json!({}));
        let document = json!({
            "uri": editor.file, "languageId": "rust", "version": 1, "text": editor.text,
        });
        editor.tell("textDocument/didOpen", json!({ "textDocument": document }));
        editor.wait_until_loaded();
        editor
    }

    pub(super) fn text(&self) -> &str {
        &self.text
    }

    /// Replaces the text, as a user who types.
    pub(super) fn type_text(&mut self, text: &str) {
        self.version += 1;
        self.text = text.to_owned();
        let params = json!({
            "textDocument": { "uri": self.file, "version": self.version },
            "contentChanges": [{ "text": text }],
        });
        self.tell("textDocument/didChange", params);
    }

    /// Returns where "go to definition" leads to.
    pub(super) fn definition(&mut self, mark: &str) -> Vec<Place> {
        let answer = self.ask_at("textDocument/definition", mark);
        self.places(&answer)
    }

    /// Returns where "go to declaration" leads to.
    pub(super) fn declaration(&mut self, mark: &str) -> Vec<Place> {
        let answer = self.ask_at("textDocument/declaration", mark);
        self.places(&answer)
    }

    /// Returns all references, with the declaration.
    pub(super) fn references(&mut self, mark: &str) -> Vec<Place> {
        let mut params = self.at(mark);
        params["context"] = json!({ "includeDeclaration": true });
        let answer = self.ask("textDocument/references", params);
        self.places(&answer.expect("an answer"))
    }

    /// Returns the names that the editor offers.
    pub(super) fn completions(&mut self, mark: &str) -> Vec<String> {
        let answer = self.ask_at("textDocument/completion", mark);
        let items = answer.get("items").unwrap_or(&answer);
        let items = items.as_array().into_iter().flatten();
        items
            .map(|item| item["label"].as_str().expect("a label").to_owned())
            .collect()
    }

    /// Returns what the editor shows beside the mouse pointer.
    pub(super) fn hover(&mut self, mark: &str) -> String {
        let answer = self.ask_at("textDocument/hover", mark);
        let text = answer["contents"]["value"].as_str();
        text.unwrap_or_default().to_owned()
    }

    /// Returns the text after a rename, or the refusal.
    pub(super) fn rename(&mut self, mark: &str, to: &str) -> Result<String, String> {
        let mut params = self.at(mark);
        params["newName"] = json!(to);
        let answer = self.ask("textDocument/rename", params)?;
        let mut edits = Vec::new();
        let files = answer["changes"].as_object().into_iter().flatten();
        for (file, changes) in files {
            assert_eq!(*file, self.file, "a rename stays in the file");
            edits.extend(changes.as_array().into_iter().flatten().cloned());
        }
        for change in answer["documentChanges"].as_array().into_iter().flatten() {
            assert_eq!(change["textDocument"]["uri"], self.file.as_str());
            edits.extend(change["edits"].as_array().into_iter().flatten().cloned());
        }
        let place =
            |edit: &Value, end: &str| Place::from_json(&edit["range"][end]).offset(&self.text);
        edits.sort_by_key(|edit| std::cmp::Reverse(place(edit, "start")));
        let mut text = self.text.clone();
        for edit in edits {
            let range = place(&edit, "start")..place(&edit, "end");
            text.replace_range(range, edit["newText"].as_str().expect("a text"));
        }
        Ok(text)
    }

    fn at(&self, mark: &str) -> Value {
        let place = Place::of(&self.text, mark).to_json();
        json!({ "textDocument": { "uri": self.file }, "position": place })
    }

    fn ask_at(&mut self, method: &str, mark: &str) -> Value {
        let params = self.at(mark);
        self.ask(method, params).expect("an answer")
    }

    /// Returns the places in sorted order. All are in the open file.
    fn places(&self, answer: &Value) -> Vec<Place> {
        let all = answer.as_array().cloned().unwrap_or_default();
        let mut places = Vec::new();
        for location in all {
            assert_eq!(location["uri"], self.file.as_str(), "a place in the file");
            places.push(Place::from_json(&location["range"]["start"]));
        }
        places.sort();
        places
    }

    fn tell(&mut self, method: &str, params: Value) {
        self.send(&json!({ "jsonrpc": "2.0", "method": method, "params": params }));
    }

    /// Returns the answer, or the message of the error.
    fn ask(&mut self, method: &str, params: Value) -> Result<Value, String> {
        self.last += 1;
        let id = self.last;
        self.send(&json!({ "jsonrpc": "2.0", "id": id, "method": method, "params": params }));
        loop {
            let message = self.next();
            if message["id"] != id || message.get("method").is_some() {
                continue;
            }
            return match message.get("error") {
                // The text changed meanwhile, or the sources were not loaded completely.
                Some(error) if error["code"] == -32801 => self.ask(method, params),
                Some(error) => Err(error["message"].as_str().unwrap_or_default().to_owned()),
                None => Ok(message["result"].clone()),
            };
        }
    }

    fn wait_until_loaded(&mut self) {
        loop {
            let message = self.next();
            let is_status = message["method"] == "experimental/serverStatus";
            if is_status && message["params"]["quiescent"] == true {
                return;
            }
        }
    }

    /// Returns the next message. Answers what the server asks the editor.
    fn next(&mut self) -> Value {
        let message = self.from_server.recv_timeout(PATIENCE);
        let message = message.expect("rust-analyzer answers in time");
        if let (Some(id), Some(_)) = (message.get("id"), message.get("method")) {
            self.send(&json!({ "jsonrpc": "2.0", "id": id, "result": null }));
        }
        message
    }

    fn send(&mut self, message: &Value) {
        let text = message.to_string();
        write!(
            self.to_server,
            "Content-Length: {}\r\n\r\n{text}",
            text.len()
        )
        .and_then(|()| self.to_server.flush())
        .expect("rust-analyzer listens");
    }
}

/// Reads one message. `None` at the end.
fn receive(output: &mut impl BufRead) -> Option<Value> {
    let mut length = 0;
    loop {
        let mut line = String::new();
        if output.read_line(&mut line).ok()? == 0 {
            return None;
        }
        let line = line.trim();
        if line.is_empty() {
            break;
        }
        if let Some(number) = line.strip_prefix("Content-Length: ") {
            length = number.parse().ok()?;
        }
    }
    let mut bytes = vec![0; length];
    output.read_exact(&mut bytes).ok()?;
    serde_json::from_slice(&bytes).ok()
}
