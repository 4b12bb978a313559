// What the page knows of the program.

import { ApiError, get, merge, stream } from "./requests.js";

export const state = {
	summary: null,
	live: null,
	/** `connecting`, `live`, `paused` (hidden, or by the user) or `lost`. */
	link: "connecting",
	error: null,
	/** Patches in the last seconds, for "2/s". */
	pace: 0,
	/** When the last patch came, in milliseconds of the browser. */
	seen: 0,
};

const listeners = new Set();
let machine = null;
let isHeld = false;
let running = null;
let arrivals = [];
const sparks = new Map();

/** Calls `on()` after each change, in an animation frame. Returns how to stop. */
export function subscribe(on) {
	listeners.add(on);
	return () => listeners.delete(on);
}

let isPlanned = false;
function tell() {
	if (isPlanned) return;
	isPlanned = true;
	requestAnimationFrame(() => {
		isPlanned = false;
		for (const on of [...listeners]) on();
	});
}

export async function loadSummary() {
	const summary = await get("summary");
	state.summary = summary;
	for (const of of summary.machines) {
		const known = sparks.get(of.type);
		if (!known) sparks.set(of.type, { points: [...of.spark], started: of.started, at: summary.now });
		else known.points = [...of.spark];
	}
	tell();
	return summary;
}

/** The starts by second of the last two minutes, in steps of 2 s. */
export function spark(type) {
	return sparks.get(type)?.points ?? [];
}

function extendSparks() {
	for (const [type, of] of Object.entries(state.live?.machines ?? {})) {
		const known = sparks.get(type);
		if (!known) continue;
		const time = state.live.now - known.at;
		if (time < 2) continue;
		known.points.push(Math.max(0, (of.started - known.started) / time));
		known.points = known.points.slice(-60);
		known.started = of.started;
		known.at = state.live.now;
	}
}

/** The stream also tells of this machine, or of none. */
export function watch(type) {
	if (machine === type) return;
	machine = type;
	if (state.live) delete state.live.machine;
	restart();
}

export function hold(on) {
	isHeld = on;
	restart();
}

export function held() {
	return isHeld;
}

export function restart() {
	running?.abort();
	running = null;
	if (document.hidden || isHeld) {
		setLink("paused");
		return;
	}
	running = new AbortController();
	follow(running.signal);
}

function setLink(link, error = null) {
	state.link = link;
	state.error = error;
	tell();
}

async function follow(signal) {
	let pause = 500;
	while (!signal.aborted) {
		setLink(state.link === "lost" ? "lost" : "connecting", state.error);
		let reason = "the program closed the stream";
		try {
			await loadSummary();
			await stream(machine, signal, (name, data) => {
				if (signal.aborted || name !== "live") return;
				pause = 500;
				receive(data);
			});
		} catch (error) {
			if (signal.aborted) return;
			reason = error instanceof ApiError ? error.message : "the connection broke off";
			if (error.status > 0 && error.code !== "busy") {
				setLink("lost", error);
				if (error.code === "token" || error.code === "version") return;
			}
		}
		if (signal.aborted) return;
		setLink("lost", state.error ?? new ApiError(0, "unreachable", reason));
		await new Promise((done) => setTimeout(done, pause));
		pause = Math.min(pause * 2, 8000);
	}
}

function receive(data) {
	if (data.seq === 1 || !state.live) state.live = {};
	merge(state.live, data);
	const now = performance.now();
	arrivals = arrivals.filter((time) => now - time < 4000);
	arrivals.push(now);
	state.pace = arrivals.length > 1 ? (arrivals.length - 1) / ((now - arrivals[0]) / 1000) : 0;
	state.seen = now;
	state.link = "live";
	state.error = null;
	extendSparks();
	tell();
}

document.addEventListener("visibilitychange", restart);

/**
 * Asks again and again while the tab is visible, and for at most a tenth of the time. `ask` gets an
 * `AbortSignal`. Returns how to stop, and how to ask at once.
 */
export function poll(ask, seconds) {
	let timer = 0;
	let control = new AbortController();
	let isStopped = false;
	async function round() {
		clearTimeout(timer);
		if (isStopped) return;
		if (document.hidden || isHeld) {
			timer = setTimeout(round, 500);
			return;
		}
		const begun = performance.now();
		try {
			await ask(control.signal);
		} catch (error) {
			if (error.name === "AbortError" || isStopped) return;
			if (!(error instanceof ApiError)) console.error(error);
		}
		const took = performance.now() - begun;
		if (!isStopped) timer = setTimeout(round, Math.max(seconds * 1000, took * 10));
	}
	round();
	return {
		stop() {
			isStopped = true;
			clearTimeout(timer);
			control.abort();
		},
		now() {
			control.abort();
			control = new AbortController();
			round();
		},
	};
}
