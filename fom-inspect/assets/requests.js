// Requests to the inspector. The page asks no other host.

const BASE = "/api/v1/";
const VERSION = "1";
const STORE = "fom-token";

/** An answer that is no success. `code` is one of API.md; `unreachable` if there is no answer. */
export class ApiError extends Error {
	constructor(status, code, message, allowed = []) {
		super(message);
		this.status = status;
		this.code = code;
		this.allowed = allowed;
	}
}

/** Takes the token out of the fragment. */
export function takeToken() {
	const found = /^#(?:.*&)?token=([^&]+)/.exec(location.hash);
	if (!found) return;
	setToken(decodeURIComponent(found[1]));
	history.replaceState(history.state, "", location.pathname + location.search);
}

export function token() {
	return sessionStorage.getItem(STORE);
}

export function setToken(value) {
	if (value) sessionStorage.setItem(STORE, value);
	else sessionStorage.removeItem(STORE);
}

function headers(more) {
	const all = { "Fom-Api": VERSION, ...more };
	const secret = token();
	if (secret) all.Authorization = `Bearer ${secret}`;
	return all;
}

async function checked(request) {
	let answer;
	try {
		answer = await request;
	} catch (error) {
		if (error.name === "AbortError") throw error;
		throw new ApiError(0, "unreachable", "the program does not answer");
	}
	if (answer.ok) return answer;
	let told;
	try {
		told = (await answer.json()).error;
	} catch {
		told = undefined;
	}
	throw new ApiError(
		answer.status, told?.code ?? "unknown", told?.message ?? `the program answered with status ${answer.status}`, told?.allowed,
	);
}

/** `get("foms", { type: "Call" })`: the JSON of a resource. */
export async function get(path, parameters = {}, signal) {
	const query = new URLSearchParams();
	for (const [name, value] of Object.entries(parameters)) {
		if (value !== undefined && value !== null && value !== "") query.set(name, value);
	}
	const text = query.toString();
	const url = BASE + path + (text ? `?${text}` : "");
	const answer = await checked(fetch(url, { headers: headers(), signal, cache: "no-store" }));
	return answer.json();
}

export async function act(body) {
	const answer = await checked(fetch(`${BASE}actions`, {
		method: "POST", headers: headers({ "Content-Type": "application/json" }), body: JSON.stringify(body),
	}));
	return answer.json();
}

/** Saves the bytes of an entry of the quarantine. */
export async function download(path, name) {
	const answer = await checked(fetch(BASE + path, { headers: headers() }));
	const url = URL.createObjectURL(await answer.blob());
	const link = document.createElement("a");
	link.href = url;
	link.download = name;
	link.click();
	setTimeout(() => URL.revokeObjectURL(url), 10_000);
}

/** Opens the stream. Calls `on(name, data)` until it ends. */
export async function stream(machine, signal, on) {
	const query = machine ? `?machine=${encodeURIComponent(machine)}` : "";
	const answer = await checked(fetch(`${BASE}stream${query}`, { headers: headers({ Accept: "text/event-stream" }), signal, cache: "no-store" }));
	const reader = answer.body.pipeThrough(new TextDecoderStream()).getReader();
	let rest = "";
	for (;;) {
		const { value, done } = await reader.read();
		if (done) return;
		rest += value;
		let end;
		while ((end = rest.search(/\r?\n\r?\n/)) >= 0) {
			const block = rest.slice(0, end);
			rest = rest.slice(end).replace(/^\r?\n\r?\n/, "");
			parse(block, on);
		}
	}
}

function parse(block, on) {
	let name = "message";
	const data = [];
	for (const line of block.split(/\r?\n/)) {
		if (line.startsWith("event:")) name = line.slice(6).trim();
		else if (line.startsWith("data:")) data.push(line.slice(5).replace(/^ /, ""));
	}
	if (data.length > 0) on(name, JSON.parse(data.join("\n")));
}

/** A JSON merge patch (RFC 7396), applied to the document itself. */
export function merge(target, patch) {
	if (patch === null || typeof patch !== "object" || Array.isArray(patch)) return patch;
	const into = target !== null && typeof target === "object" && !Array.isArray(target) ? target : {};
	for (const [name, value] of Object.entries(patch)) {
		if (name === "__proto__") continue;
		if (value === null) delete into[name];
		else into[name] = merge(into[name], value);
	}
	return into;
}

/** The path of a machine in the API. */
export function machinePath(type) {
	return `machines/${encodeURIComponent(type)}`;
}
