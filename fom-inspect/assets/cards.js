// Parts of several views: warnings, localities, the journal, waits in short.

import { get } from "./requests.js";
import { heatScale, heatStrip } from "./charts.js";
import { card, facts, h, keyed, s, setText } from "./dom.js";
import { bytes, count, duration, percent, plural, rate } from "./format.js";
import { poll, state } from "./live.js";
import { href } from "./routes.js";
import { drawWaits } from "./waits.js";

function sign() {
	return s("svg.sign", { viewBox: "0 0 20 18", "aria-hidden": "true" }, s("path", { d: "M10 1.5L18.8 16.5H1.2z", "stroke-linejoin": "round" }), s("text", { x: 10, y: 14.4 }, "!"));
}

export function isSevere(warning) {
	return !["warning", "info", "notice"].includes(warning.level);
}

function warningRow(warning) {
	const level = h("span.sr");
	const text = h("b");
	const more = h("small");
	const links = h("small");
	const el = h("div.warning", sign(), level, text, more, links);
	return {
		el,
		update(now) {
			el.className = `warning${isSevere(now) ? " bad" : ""}`;
			setText(level, `${now.level}: `);
			setText(text, now.text);
			setText(more, `${[...(now.common ?? []), now.advice].filter(Boolean).map((line) => `${line.replace(/\.$/, "")}. `).join("")}For ${duration(now.age)}.`);
			const shape = JSON.stringify([now.operation, now.phase, now.ids?.slice(0, 8)]);
			if (links.dataset.shape === shape) return;
			links.dataset.shape = shape;
			const type = typeOf(now.operation);
			const shown = [];
			if (type && now.phase) shown.push(h("a.link", { href: href.machine(type, now.phase) }, `look at ${now.phase}`));
			for (const id of now.ids?.slice(0, 8) ?? []) shown.push(" · ", h("a.link.num", { href: href.fom(id) }, id));
			const rest = (now.foms ?? now.ids?.length) - 8;
			if (rest > 0) shown.push(` and ${count(rest)} more`);
			links.replaceChildren(...shown);
		},
	};
}

/** The type in paths of an operation in foms. */
export function typeOf(operation) {
	return state.summary?.machines.find((of) => of.operation === operation)?.type;
}

export function warningList(limit = Infinity) {
	const el = h("div");
	return {
		el,
		update(warnings) {
			const shown = [...warnings].sort((a, b) => Number(isSevere(b)) - Number(isSevere(a)) || b.age - a.age).slice(0, limit);
			keyed(el, shown, (of) => `${of.kind}|${of.subject ?? of.text}|${of.detail}`, warningRow);
		},
	};
}

/** Warnings now, then the last incidents. */
function warningsCard(onWarnings) {
	const view = card("Warnings", "");
	const list = warningList(6);
	const incidents = h("div");
	view.el.append(list.el, incidents);
	const polling = poll(async (signal) => {
		const answer = await get("warnings", {}, signal);
		const warnings = answer.warnings ?? [];
		setText(view.note, answer.warnings === null ? "the program does not watch" : warnings.length === 0 ? "none now" : `${count(warnings.length)} now`);
		list.update(warnings);
		onWarnings(warnings);
		keyed(incidents, answer.incidents.slice(-3).reverse(), (of) => `${of.kind} ${of.subject} ${of.text}`, () => {
			const text = h("span");
			const time = h("small");
			return { el: h("div.incident", text, time), update: (now) => { setText(text, `${now.subject}: ${now.text}`); setText(time, `${now.count > 1 ? `${count(now.count)} times, ` : ""}${duration(now.age)} ago`); } };
		});
	}, 3);
	return { el: view.el, close: () => polling.stop() };
}

/** The heat strips of all localities. */
export function localitiesCard(className = "") {
	const view = card("Localities", "share of busy time, last 5 minutes");
	view.heading.append(h("a.end.link", { href: href.view("localities") }, "all"));
	view.el.classList.add("localities");
	const strips = h("div", { class: `strips ${className}` });
	view.el.append(strips, heatScale());
	let data = null;
	const rows = new Map();
	function draw() {
		if (!data) return;
		for (const of of data.localities) {
			let row = rows.get(of.index);
			if (!row) {
				const name = h("span", h("b", of.index), " ", h("span.dim", of.cpus.length ? `cpu ${of.cpus.slice(0, 2).join(", ")}${of.cpus.length > 2 ? ".." : ""}` : ""));
				row = { strip: heatStrip(`Locality ${of.index}`), text: h("span.num.dim") };
				rows.set(of.index, row);
				strips.append(name, row.strip.el, row.text);
			}
			row.strip.update(of.busy, Math.round(300 / data.step));
			const live = state.live?.localities?.[of.index];
			setText(row.text, `${percent(live?.busy ?? of.busy.at(-1) ?? null)} · ${count(live?.foms ?? of.foms)} foms · ${count(live?.ready ?? of.ready)} ready`);
		}
	}
	const polling = poll(async (signal) => {
		data = await get("localities", {}, signal);
		draw();
	}, 2);
	const resize = new ResizeObserver(draw);
	resize.observe(strips);
	return { el: view.el, update: draw, close: () => { polling.stop(); resize.disconnect(); } };
}

function journalCard() {
	const view = card("Journal", "");
	view.heading.append(h("a.end.link", { href: href.view("journal") }, "more"));
	const known = facts();
	view.el.append(known.el);
	const polling = poll(async (signal) => {
		const { journal, quarantine } = await get("journal", { limit: 1 }, signal);
		journalFacts(known, journal);
		setText(view.note, quarantine.total > 0 ? "" : "healthy");
		known.set("quarantine", quarantine.total > 0 ? h("a.link.warm", { href: href.view("journal") }, plural(quarantine.total, "entry", "entries")) : "empty");
	}, 3);
	return { el: view.el, close: () => polling.stop() };
}

export function journalFacts(known, journal) {
	known.set("entries", `${count(journal.entries)} · ${bytes(journal.live_bytes)} of ${bytes(journal.size_bytes)} live`, "num");
	known.set("written", `${bytes(journal.rates.written_bytes["10s"] === null ? null : Math.round(journal.rates.written_bytes["10s"]))}/s`, "num");
	known.set("commits", `${rate(journal.rates.syncs["10s"])} syncs`, "num");
}

function waitsCard() {
	const view = card("Waits", "");
	view.heading.append(h("a.end.link", { href: href.view("waits") }, "all"));
	const box = h("div.waits.compact");
	view.el.append(box);
	const polling = poll(async (signal) => {
		const answer = await get("waits", { limit: 60 }, signal);
		const cycles = answer.deadlocks.length;
		view.note.className = cycles > 0 ? "note bad" : "note";
		setText(view.note, cycles > 0 ? plural(cycles, "cycle") : answer.total === 0 ? "no fom waits for another" : `no cycle · ${plural(answer.total, "wait")}`);
		drawWaits(box, answer, 7);
	}, 3);
	return { el: view.el, close: () => polling.stop() };
}

/**
 * The cards beside the machines, as far as the program has them: `warnings`, `localities`, `waits`, `journal`. `warned(map)`
 * gets the number of foms with a warning by `keyOf(warning, type)`, which is `undefined` for warnings of others.
 */
export function sideCards(keyOf, warned) {
	const onWarnings = (warnings) => {
		const sums = new Map();
		for (const of of warnings) {
			const key = keyOf(of, typeOf(of.operation));
			if (key) sums.set(key, (sums.get(key) ?? 0) + Math.max(1, of.foms ?? of.ids?.length ?? 1));
		}
		warned(sums);
	};
	const kinds = { warnings: () => warningsCard(onWarnings), localities: localitiesCard, waits: waitsCard, journal: journalCard };
	const all = Object.fromEntries(Object.entries(kinds).filter(([name]) => state.summary?.resources.includes(name)).map(([name, make]) => [name, make()]));
	return {
		el: (...names) => names.flatMap((name) => all[name]?.el ?? []),
		update: () => all.localities?.update(),
		close: () => Object.values(all).forEach((of) => of.close()),
	};
}

/** Says that a view has nothing to show in this program. */
export function absent(name, message) {
	return h("section.card.absent", h("h1", `${name}: not available in this program`), h("p", message));
}
