// One fom: its timeline, and what it waits for.

import { ApiError, get } from "./requests.js";
import { actionButtons } from "./actions.js";
import { ROUND } from "./charts.js";
import { card, facts, h, keyed, s, setText, table } from "./dom.js";
import { bytes, count, duration, plural, tick } from "./format.js";
import { diagram, health, limitOf } from "./diagram.js";
import { poll, state, watch } from "./live.js";
import { href } from "./routes.js";

/** The card of a fom. `onLoaded(answer)` gets each answer. */
export function fomCard(id, machineOf, onLoaded = () => {}) {
	const title = h("h1.fomhead");
	const drawing = h("div");
	const known = facts();
	const waits = h("div");
	const attempts = table("Failed attempts", [["failed attempt", "num", (of) => of.number], ["error", "wrap error", (of) => of.error], ["ago", "num", (of) => duration(of.age), true]], (of) => of.number);
	const actions = h("div");
	const saved = h("pre");
	const data = h("details", { hidden: !state.summary?.data }, h("summary.part", "Data of the last commit"), saved);
	data.addEventListener("toggle", () => data.open && get(`foms/${id}/data`).then(({ phase, fields, values }) => setText(saved, JSON.stringify({ phase, fields, values }, null, 2)), (error) => setText(saved, error.message)));
	const note = h("p.result.bad", { hidden: true });
	const el = h("section.card", { "aria-label": `Fom ${id}` }, title, note, drawing,
		h("div.two", h("div", h("h3.part", "Waits for"), waits, attempts.el), h("div", h("h3.part", "Facts"), known.el, actions)), data);
	let last = null;
	let shownActions = "";

	async function ask(signal) {
		let answer;
		try {
			answer = await get(`foms/${id}`, {}, signal);
		} catch (error) {
			if (!(error instanceof ApiError) || error.status !== 404) throw error;
			note.hidden = false;
			setText(note, last ? `Fom ${id} has ended. This is the last that the page saw of it.` : `No fom has the id ${id} now: it has ended, or it never was.`);
			if (!last) setText(title, `Fom ${id}`);
			actions.replaceChildren();
			polling.stop();
			onLoaded(null);
			return;
		}
		if (last?.fom.phase !== answer.fom.phase) family();
		last = answer;
		show(answer);
		onLoaded(answer);
	}

	const family = () => get(`foms/${id}/family`).then(({ parent, children }) => {
		if (!children) return;
		const to = (of) => h("a.chip", { href: href.fom(of) }, of);
		known.set("parent", parent ? to(parent) : "none");
		known.set("children", h("div", children.map((of) => to(of.id))));
	}, () => {});

	function show(answer) {
		const { fom } = answer;
		const machine = machineOf(answer.type);
		const phase = machine?.phases.find((of) => of.phase === fom.phase);
		heading(title, answer);
		drawing.replaceChildren(timeline(answer, phase, drawing.clientWidth || 880));
		describe(known, fom, phase);
		showWaits(waits, fom);
		attempts.show(fom.attempts);
		const wanted = JSON.stringify(answer.actions) + Boolean(machine);
		if (wanted !== shownActions) {
			shownActions = wanted;
			actions.replaceChildren(actionButtons(answer, phase, () => polling.now()));
		}
	}

	const polling = poll(ask, 1);
	return { el, refresh: () => last && show(last), close: () => polling.stop() };
}

function heading(title, { fom, type }) {
	const text = `${fom.operation}|${fom.key}|${fom.phase}|${fom.state}|${fom.locality}`;
	if (title.dataset.shown === text) return;
	title.dataset.shown = text;
	title.replaceChildren(
		h("a", { href: href.machine(type) }, fom.operation), h("span.key", fom.key ?? "no key"),
		h("span.note", "id ", h("a.link.num", { href: href.fom(fom.id) }, fom.id), " · in ", h("a.link", { href: href.machine(type, fom.phase) }, fom.phase),
			` · ${fom.state}${fom.locality === null ? "" : ` · locality ${fom.locality}`}`),
	);
}

function describe(known, fom, phase) {
	known.set("in flight", duration(fom.age), "num");
	known.set("in phase", duration(fom.in_phase), `num ${phase && health(phase, fom.in_phase) === "late" ? "bad" : ""}`);
	const limit = phase && limitOf(phase);
	if (fom.deadline_in !== null) known.set("deadline", fom.deadline_in >= 0 ? `in ${duration(fom.deadline_in)}` : `${duration(-fom.deadline_in)} ago`, fom.deadline_in < 0 ? "num bad" : "num");
	else known.set("deadline", `none${limit && !limit.isDeadline ? `; 99.9 % leave within ${duration(limit.at)}` : ""}`);
	known.set("kept events", fom.events === 0 ? "none" : plural(fom.events, "event"), fom.events > 0 ? "num" : "");
	known.set("failed attempts", count(fom.attempts.length), "num");
	known.set("memory", bytes(fom.bytes), "num");
}

function showWaits(into, fom) {
	const nothing = { text: { running: "nothing: it runs now", ready: "its locality: it is ready to run" }[fom.state] ?? "nothing", holders: [] };
	keyed(into, fom.waits.length > 0 ? fom.waits : [nothing], (of) => of.text + of.holders.map((one) => one.fom), (of) => {
		const since = h("span.dim.num");
		const el = h("div.wait", of.text, " ", since);
		if (of.ahead > 0) el.append(h("div.dim", `${plural(of.ahead, "fom")} before it`));
		if (of.holders.length > 0) el.append(h("div.who", h("span.dim", of.holders[0].hold === "has" ? "held by" : of.holders[0].hold), of.holders.slice(0, 20).map(holderChip)));
		return { el, update: (now) => setText(since, now.waited === undefined ? "" : `since ${duration(now.waited)}`) };
	});
}

function holderChip(holder) {
	return holder.fom === null ? h("span.chip", holder.name) : h("a.chip", { href: href.fom(holder.fom) }, holder.name);
}

/** The phases that a fom passed: `[{ phase, from, to }]`, in seconds before now. */
function visits(fom, now) {
	const found = [];
	const steps = fom.history.filter((of) => of.phase);
	const current = { phase: fom.phase, from: fom.in_phase, to: 0, isNow: true };
	const past = steps.map((of) => ({ phase: of.phase, from: now - of.at }));
	if (past.length > 0 && Math.abs(past.at(-1).from - fom.in_phase) < 0.5 + fom.in_phase * 0.01 && past.at(-1).phase === fom.phase) past.pop();
	const first = past[0]?.from ?? fom.in_phase;
	if (fom.age - first > Math.max(0.02 * fom.age, 1e-3)) found.push({ phase: null, from: fom.age, to: first });
	past.forEach((of, index) => found.push({ ...of, to: past[index + 1]?.from ?? fom.in_phase }));
	return [...found, current];
}

function ticks(length, width) {
	const most = width / 90;
	const step = ROUND.find((of) => length / of <= most) ?? Math.ceil(length / most / 604800) * 604800;
	return Array.from({ length: Math.floor(length / step) + 1 }, (_, index) => index * step);
}

/** The time since the fom's submission. */
function timeline({ fom, now: asked, timeline: entries }, phase, width) {
	const left = width < 600 ? 56 : 76;
	const right = width - 14;
	const limit = phase && limitOf(phase);
	// The clock can be read later than the fom. Nothing of a fom is older than the fom.
	const now = Math.min(asked, ...[...fom.history, ...(entries ?? [])].map((of) => of.at + fom.age));
	const ahead = fom.deadline_in !== null && fom.deadline_in > 0 && fom.deadline_in < fom.age * 1.5 ? fom.deadline_in * 1.04 : fom.age * 0.02;
	const length = Math.max(fom.age + ahead, 1e-4);
	const x = (before) => left + ((fom.age - before) / length) * (right - left);
	const attempts = fom.attempts.filter((of) => of.age <= fom.age).map((of) => (y) => s("text.tick.fail", { x: x(of.age), y: y + 5 }, "✕", s("title", `attempt ${of.number}: ${of.error.slice(0, 300)}`)));
	const lanes = [...recorded(entries ?? [], now, x), ["attempts", attempts]].filter(([, parts]) => parts.length > 0);
	const base = 66 + lanes.length * 26;
	const el = s("svg.tl", { viewBox: `0 0 ${width} ${base + 26}`, role: "img" });
	for (const at of ticks(length, width)) {
		el.append(s("line.grid-line", { x1: x(fom.age - at), x2: x(fom.age - at), y1: 22, y2: base }), s("text.tick", { x: Math.min(x(fom.age - at), width - 16), y: base + 16 }, tick(at)));
	}
	el.append(s("text.lane", { x: left - 10, y: 49 }, "phase"));
	visits(fom, now).forEach((of, index) => el.append(...visit(of, index, x, phase, limit)));
	lanes.forEach(([name, parts], index) => el.append(s("text.lane", { x: left - 10, y: 82 + index * 26 }, name), ...parts.map((part) => part(78 + index * 26))));
	const nowX = x(0);
	el.append(s("line.now-line", { x1: nowX, x2: nowX, y1: 16, y2: base }), s("text.lane", { x: nowX, y: 12 }, `now · ${duration(fom.age)} after its submission`));
	deadline(el, fom, x, base, limit, right);
	el.setAttribute("aria-label", `Timeline: ${visits(fom, now).map((of) => `${of.phase ?? "earlier phases"} ${duration(of.from - of.to)}`).join(", ")}`);
	return el;
}

/** The lanes of the flight recorder, each part a function of its height. */
function recorded(entries, now, x) {
	const [events, runs, commits] = [[], [], []];
	const begun = {};
	const span = (kind, from, to) => (y) => s(`rect.${kind}`, { x: x(now - from), y: y - 6, width: Math.max(2, x(now - to) - x(now - from)), height: 12 }, s("title", `${kind}: ${duration(to - from)}`));
	for (const { event, at, by } of entries) {
		const [, kind, edge] = /^(run|block|commit)_(begins|ends)$/.exec(event) ?? [];
		if (edge === "begins") begun[kind] = at;
		else if (edge) (kind === "commit" ? commits : runs).push(span(kind, begun[kind] ?? at, at));
		else if (event !== "transition") events.push((y) => s(`circle.${event}`, { cx: x(now - at), cy: y, r: 4.5 }, s("title", `${event.replace("_", " ")}${by ? ` by ${by}` : ""}`)));
	}
	return [["events", events], ["runs", runs], ["journal", commits]];
}

function visit(of, index, x, phase, limit) {
	const from = x(of.from);
	const size = Math.max(2, x(of.to) - from);
	const state = of.isNow && phase ? health(phase, of.from) : "";
	const name = of.phase ?? "earlier phases";
	const time = duration(of.from - of.to);
	const text = of.isNow ? `${name} ${time} and counting` : `${name} ${time}`;
	const parts = [s("rect", { class: `p ${of.isNow ? state || "now" : index % 2 ? "odd" : ""}${of.phase ? "" : " unknown"}`, x: from.toFixed(1), y: 30, width: size.toFixed(1), height: 28, rx: Math.min(4, size / 2) }, s("title", of.phase ? text : `${text}: Builder::history keeps them`))];
	const room = size / 6.6;
	const label = room > text.length + 2 ? text : room > name.length + 2 ? name : "";
	const isOver = of.isNow && limit && !limit.isDeadline && of.from > limit.at;
	const at = isOver ? x(of.from - limit.at) : 0;
	if (label) parts.push(s("text.in", { x: at > from && at < from + label.length * 7 ? at + 8 : from + 8, y: 48 }, label));
	if (isOver) {
		parts.push(s("line.limit", { x1: at, x2: at, y1: 26, y2: 62 }, s("title", `99.9 % leave within ${duration(limit.at)}`)));
	}
	return parts;
}

function deadline(el, fom, x, base, limit, right) {
	if (fom.deadline_in === null) return;
	const at = x(-fom.deadline_in);
	if (at > right + 1) return;
	el.append(s("line.limit", { x1: at, x2: at, y1: 16, y2: base }), s("text.limit-text", { x: Math.max(at, 130), y: 25 }, "deadline"));
}

/** The page of one fom, above the diagram of its machine. */
export function fomView(id, machineOf) {
	let machine = null;
	let drawing = null;
	let phase = null;
	const view = card("", "");
	view.el.hidden = true;
	const fom = fomCard(id, (type) => (machine?.type === type ? machine : null), async (answer) => {
		if (!answer) return;
		phase = answer.fom.phase;
		if (drawing) return;
		drawing = diagram((machine = await machineOf(answer.type)));
		watch(answer.type);
		setText(view.title, machine.machine);
		setText(view.note, `of ${machine.operation}`);
		view.el.append(drawing.el);
		view.el.hidden = false;
		fom.refresh();
	});
	return {
		el: h("div.stack", h("p.crumbs", h("a", { href: href.foms() }, "Operations"), ` › ${id}`), fom.el, view.el), title: `fom ${id}`,
		update: () => drawing?.update({ live: state.live?.machine?.type === machine.type ? state.live.machine : null, picked: phase }),
		close() {
			fom.close();
			watch(null);
		},
	};
}
