//! Which requests are refused, and what the refusal says.

use serde_json::json;

use crate::kit::{Served, TOKEN, limited, runtime};

fn acting() -> Served {
    Served::acting(runtime())
}

#[test]
fn the_host_is_the_bound_address_or_an_allowed_name() {
    limited(|| {
        let served = Served::with(runtime(), |inspector| inspector.allow_host("ops.example"));
        let port = served.address().port();
        let read = |lines: &str| served.raw(format!("{lines}Connection: close\r\n\r\n").as_bytes());
        let get = "GET /api/v1/summary HTTP/1.1\r\n";
        for host in [
            format!("127.0.0.1:{port}"),
            format!("localhost:{port}"),
            "LOCALHOST".into(),
            "ops.example".into(),
            format!("Ops.Example:{port}"),
            // A tunnel has another port.
            "127.0.0.1:9".into(),
        ] {
            assert_eq!(
                read(&format!("{get}Host: {host}\r\n")).status,
                200,
                "{host}"
            );
        }
        for host in [
            format!("evil.example:{port}"),
            format!("127.0.0.1.evil.example:{port}"),
            "localhost.evil.example".into(),
            "10.0.0.1".into(),
            "[::1]".into(),
            "".into(),
            ":".into(),
            "\u{e9}".into(),
        ] {
            for path in ["/", "/app.js", "/api", "/api/v1/summary", "/nothing"] {
                let answer = read(&format!("GET {path} HTTP/1.1\r\nHost: {host}\r\n"));
                answer.is(403, "host");
            }
        }
        // No host, two hosts, and a host in the request line.
        read("GET / HTTP/1.0\r\n").is(403, "host");
        read(&format!("{get}Host: localhost\r\nHost: evil.example\r\n")).is(403, "host");
        read("GET http://evil.example/ HTTP/1.1\r\nHost: localhost\r\n").is(403, "host");
        let allowed = read(&format!("{get}Host: evil.example\r\n")).json();
        let allowed = allowed["error"]["allowed"].as_array().unwrap().clone();
        assert!(allowed.contains(&"ops.example".into()), "{allowed:?}");
        served.goes_on();
    });
}

#[test]
fn pages_of_other_origins_have_no_access() {
    limited(|| {
        let served = acting();
        let own = format!("Origin: http://{}\r\n", served.address());
        let cancel = json!({"action": "cancel", "id": 1, "reason": "why not"}).to_string();
        let post = |headers: &str| {
            let headers = format!(
                "Authorization: Bearer {TOKEN}\r\nContent-Type: application/json\r\n{headers}"
            );
            served.request("POST /api/v1/actions HTTP/1.1", &headers, &cancel)
        };
        let get = |path: &str, headers: &str| {
            served.request(&format!("GET {path} HTTP/1.1"), headers, "")
        };
        post(&own).is(404, "not_found");
        assert_eq!(get("/api/v1/summary", &own).status, 200);
        for foreign in [
            "Origin: http://evil.example\r\n",
            "Origin: null\r\n",
            "Origin: http://localhost:1\r\n",
            "Sec-Fetch-Site: cross-site\r\n",
            "Sec-Fetch-Site: same-site\r\n",
            "Sec-Fetch-Site: cross-site\r\nSec-Fetch-Mode: navigate\r\n",
        ] {
            post(foreign).is(403, "origin");
            get("/api/v1/summary", foreign).is(403, "origin");
        }
        get(
            "/app.js",
            "Sec-Fetch-Site: cross-site\r\nSec-Fetch-Mode: no-cors\r\n",
        )
        .is(403, "origin");
        // A link from elsewhere works.
        let link = "Sec-Fetch-Site: cross-site\r\nSec-Fetch-Mode: navigate\r\n";
        assert_eq!(get("/view/foms/7", link).status, 200);
        served.goes_on();
    });
}

#[test]
fn actions_need_the_token_and_json() {
    limited(|| {
        let served = acting();
        let task = served.start("hear", "a");
        let cancel = json!({"action": "cancel", "id": task.id(), "reason": "why not"});
        let body = cancel.to_string();
        let post = |headers: &str| served.request("POST /api/v1/actions HTTP/1.1", headers, &body);
        let json = "Content-Type: application/json\r\n";
        post(json).is(403, "token");
        for wrong in [
            "Bearer ",
            "Bearer correct horse battery stapl",
            "Bearer correct horse battery staple ",
            "Basic correct horse battery staple",
            "correct horse battery staple",
        ] {
            let answer = post(&format!("{json}Authorization: {wrong}\r\n"));
            // The white space behind a header is no part of it.
            if wrong.ends_with("staple ") {
                continue;
            }
            answer.is(403, "token");
            assert!(!answer.body.contains("horse"), "{}", answer.body);
        }
        let token = format!("Authorization: Bearer {TOKEN}\r\n");
        let answer = served.request(
            &format!("POST /api/v1/actions?token={TOKEN} HTTP/1.1")
                .replace(' ', "%20")
                .replacen("%20", " ", 1)
                .replace("%20HTTP", " HTTP"),
            json,
            &body,
        );
        answer.is(403, "token");
        let other = served.start("hear", "b");
        let cancel = json!({"action": "cancel", "id": other.id(), "reason": "no"}).to_string();
        for kind in [
            "",
            "Content-Type: text/plain\r\n",
            "Content-Type: application/jsonp\r\n",
        ] {
            let line = "POST /api/v1/actions HTTP/1.1";
            served
                .request(line, &format!("{token}{kind}"), &cancel)
                .is(400, "body");
        }
        let line = "POST /api/v1/actions HTTP/1.1";
        let kind = "content-type: application/json; charset=utf-8\r\n";
        let answer = served.request(line, &format!("{token}{kind}"), &cancel);
        assert_eq!(answer.status, 200, "{}", answer.body);
        drop((task, other));
        served.goes_on();
    });
}

#[test]
fn actions_are_off_by_default() {
    limited(|| {
        let served = Served::new(runtime());
        let body = json!({"action": "cancel", "id": 1, "reason": "why not"});
        let answer = served.act(&body);
        answer.is(403, "actions_off");
        assert!(
            answer.body.contains("Inspector::actions"),
            "{}",
            answer.body
        );
        assert_eq!(served.json("summary")["actions"]["enabled"], false);
        served.goes_on();
    });
}

#[test]
fn methods_paths_and_versions_are_checked() {
    limited(|| {
        let served = acting();
        for line in [
            "POST /",
            "PUT /api/v1/summary",
            "DELETE /api/v1/foms/1",
            "OPTIONS /api",
            "FOO /",
        ] {
            let answer = served.request(&format!("{line} HTTP/1.1"), "", "");
            answer.is(405, "method");
            assert!(answer.head.contains("\r\nallow: get"), "{}", answer.head);
        }
        let answer = served.get("/api/v1/actions");
        answer.is(405, "method");
        assert!(answer.head.contains("\r\nallow: post"), "{}", answer.head);
        for path in [
            "/nothing",
            "/api/v1/",
            "/api/v1/nothing",
            "/api/v1/foms/x",
            "/api/v1/foms/-1",
            "/api/v1/machines/Nothing",
            "/api/v1/summary/x",
            "/../Cargo.toml",
            "/api/v1/foms/99",
        ] {
            served.get(path).is(404, "not_found");
        }
        for path in [
            "/api/v1/journal",
            "/api/v1/recorder",
            "/api/v1/recorder/trace",
        ] {
            served.get(path).is(404, "unavailable");
        }
        served.get("/api/v2/summary").is(400, "version");
        let answer = served.request("GET /api/v1/summary HTTP/1.1", "Fom-Api: 2\r\n", "");
        answer.is(400, "version");
        let message = answer.json()["error"]["message"].to_string();
        assert!(
            message.contains("version 2") && message.contains("version 1"),
            "{message}"
        );
        assert_eq!(served.get("/api").json()["api"], json!([1]));
        let head = served.request("HEAD /api/v1/summary HTTP/1.1", "", "");
        assert_eq!((head.status, head.body.as_str()), (200, ""));
        served.goes_on();
    });
}

#[test]
fn each_answer_forbids_foreign_content() {
    limited(|| {
        let served = acting();
        for path in [
            "/",
            "/app.js",
            "/style.css",
            "/view/machines/Task",
            "/api/v1/summary",
            "/nothing",
        ] {
            let head = served.get(path).head;
            for header in [
                "content-security-policy: default-src 'self'",
                "x-content-type-options: nosniff",
                "referrer-policy: no-referrer",
                "cache-control: no-store",
                "fom-api: 1",
            ] {
                assert!(head.contains(header), "{path}: {head}");
            }
            assert!(!head.contains("access-control"), "{path}: {head}");
        }
    });
}

#[test]
fn a_token_for_reading_is_asked_for_each_read_and_not_for_the_page() {
    limited(|| {
        let other = "another long secret";
        let served = Served::with(runtime(), |inspector| inspector.token(other).actions(TOKEN));
        assert_eq!(served.get("/").status, 200);
        served.get("/api/v1/summary").is(403, "token");
        served.get("/api/v1/stream").is(403, "token");
        let read = |path: &str, token: &str| {
            let token = format!("Authorization: Bearer {token}\r\n");
            served.request(&format!("GET {path} HTTP/1.1"), &token, "")
        };
        assert_eq!(read("/api/v1/summary", other).status, 200);
        assert_eq!(read("/api/v1/summary", TOKEN).status, 200);
        let session = |token| read("/api/v1/session", token).json();
        assert_eq!(
            session(other),
            json!({"token": true, "actions": false, "data": false})
        );
        assert_eq!(
            session(TOKEN),
            json!({"token": true, "actions": true, "data": false})
        );
        let none = served.get("/api/v1/session").json();
        assert_eq!(
            none,
            json!({"token": false, "actions": false, "data": false})
        );
        let body = json!({"action": "cancel", "id": 1, "reason": "why not"});
        served.act_with(other, &body.to_string()).is(403, "token");
        served.act(&body).is(404, "not_found");
    });
}
