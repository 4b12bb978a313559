// Foms in lists: the oldest of a phase, and all that match a filter.

import { get } from "./requests.js";
import { h, setAttr, setClass, table } from "./dom.js";
import { brief, count, duration } from "./format.js";
import { href } from "./routes.js";

/** A few words on what a fom waits for. */
export function waitText(fom) {
	if (fom.state === "running") return fom.blocked ? "a blocking call" : "running";
	if (fom.waits.length === 0) return fom.state;
	return fom.waits.map((of) => of.kind).join(", ");
}

/** The oldest foms of a phase. While the user reads it, its rows keep their places. */
export function oldestTable(linkOf) {
	let healthOf = () => "";
	let picked = null;
	const view = table("Oldest foms", [
		["key", "mono", (of) => h("a", { href: linkOf(of) }, of.key ?? "no key")], ["id", "num", (of) => of.id], ["in phase", "num", (of) => brief(of.in_phase), true], ["waits for", null, waitText, true],
		["loc", "num hide-narrow", (of) => of.locality ?? "–", true],
	], (of) => of.id, "", (row, fom, cells) => {
		cells[2].className = `num ${healthOf(fom)}`;
		setClass(row, "picked", fom.id === picked);
	});
	return {
		el: h("div.slots", view.el),
		update(foms, health, chosen) {
			[healthOf, picked] = [health, chosen];
			view.show(foms);
		},
	};
}

const NAMES = { type: "type", operation: "type", phase: "phase", state: "state", wait: "wait", waits: "wait", key: "key", locality: "locality", loc: "locality", attempts: "attempts", age: "age", in_phase: "in_phase", sort: "sort" };
const TIMES = ["in_phase", "age"];
const UNITS = { ns: 1e-9, us: 1e-6, "µs": 1e-6, ms: 1e-3, s: 1, m: 60, min: 60, h: 3600, d: 86400 };

/** Reads `type:Call age>30s key:b7*`. Returns the filter, or the wrong word. */
export function parseFilter(text) {
	const filter = {};
	for (const [word] of text.matchAll(/\S+?[:>=]+"[^"]*"|\S+/g)) {
		const match = /^([a-z_]+)(:|>=?|=)"?([^"]*)"?$/.exec(word);
		const name = match && NAMES[match[1]];
		if (!name && !/[:>=]/.test(word)) {
			filter.key_prefix = word;
			continue;
		}
		if (!name || match[3] === "") return { error: `\`${word}\` is no part of a filter; use type, phase, state, waits, key, locality, age or attempts` };
		const value = match[3];
		if (TIMES.includes(name)) {
			const time = /^([\d.]+)\s*(ns|us|µs|ms|s|min|m|h|d)?$/.exec(value);
			if (!time) return { error: `\`${value}\` is no time; use for instance 30s, 5min or 2h` };
			filter[name] = String(Number(time[1]) * UNITS[time[2] ?? "s"]);
		} else if (name === "key" && value.endsWith("*")) filter.key_prefix = value.slice(0, -1);
		else filter[name] = value;
	}
	return { filter };
}

/** The text of a filter, as `parseFilter` reads it. */
export function filterText(filter) {
	const quoted = (value) => (/\s/.test(value) ? `"${value}"` : value);
	return Object.entries(filter).map(([name, value]) => {
		if (TIMES.includes(name)) return `${name}>${value}s`;
		if (name === "attempts") return `attempts>=${value}`;
		if (name === "key_prefix") return `key:${value}*`;
		return `${name === "wait" ? "waits" : name}:${quoted(value)}`;
	}).join(" ");
}

export const FILTERS = ["type", "phase", "state", "wait", "key", "key_prefix", "locality", ...TIMES, "attempts"];

const AT_ONCE = 400;
const AT_MOST = 20_000;

/**
 * Rows of foms, of which only the visible ones exist. It loads more when the user scrolls to the end, and never
 * changes what is already there: `load(filter, sort)` takes a new picture.
 */
export function virtualList(onLoaded) {
	const space = h("div.space", { role: "rowgroup" });
	const view = h("div.virtual", { tabindex: 0, role: "table", "aria-label": "Foms" }, space);
	const head = h("div.vhead", { "aria-hidden": "true" },
		...["key", "id", "type", "phase", "in phase", "age", "waits for", "loc"].map((text, index) => h("span", { class: [1, 4, 5, 7].includes(index) ? "num" : null }, text)));
	const el = h("div", h("div.headscroll", head), view);
	let rows = [];
	let next = null;
	let isLoading = false;
	let filter = {};
	let sort = "in_phase";
	let turn = 0;
	const drawn = new Map();

	const rowHeight = () => (matchMedia("(max-width: 600px)").matches ? 48 : 30);

	function draw() {
		const size = rowHeight();
		space.style.height = `${rows.length * size}px`;
		const from = Math.max(0, Math.floor(view.scrollTop / size) - 8);
		const to = Math.min(rows.length, Math.ceil((view.scrollTop + view.clientHeight) / size) + 8);
		for (const [index, row] of drawn) {
			if (index < from || index >= to) {
				row.remove();
				drawn.delete(index);
			}
		}
		for (let index = from; index < to; index++) {
			if (!drawn.has(index)) {
				const row = rowOf(rows[index]);
				row.style.transform = `translateY(${index * size}px)`;
				row.setAttribute("aria-rowindex", String(index + 1));
				drawn.set(index, row);
				space.append(row);
			}
		}
		if (next && rows.length < AT_MOST && to > rows.length - 120) more();
	}

	function rowOf(fom) {
		return h("a.vrow", { role: "row", href: href.fom(fom.id) },
			h("span.key", { role: "cell", title: fom.key }, fom.key ?? "no key"), h("span.num.dim", { role: "cell" }, fom.id),
			h("span", { role: "cell" }, fom.operation), h("span", { role: "cell" }, fom.phase), h("span.num", { role: "cell" }, duration(fom.in_phase)),
			h("span.num.dim", { role: "cell" }, duration(fom.age)), h("span", { role: "cell", title: fom.waits.map((of) => of.text).join("; ") }, waitText(fom)),
			h("span.num.dim", { role: "cell" }, fom.locality ?? "–"));
	}

	async function more() {
		if (isLoading) return;
		isLoading = true;
		const mine = turn;
		try {
			const answer = await get("foms", { ...filter, sort, limit: AT_ONCE, after: next });
			if (mine !== turn) return;
			rows = rows.concat(answer.page);
			next = answer.next;
			onLoaded(answer, rows.length, false, rows.length >= AT_MOST);
		} finally {
			isLoading = false;
		}
		draw();
	}

	view.addEventListener("scroll", () => {
		head.style.transform = `translateX(${-view.scrollLeft}px)`;
		requestAnimationFrame(draw);
	}, { passive: true });
	const resize = new ResizeObserver(() => redraw());
	resize.observe(view);
	function redraw() {
		for (const row of drawn.values()) row.remove();
		drawn.clear();
		draw();
	}

	return {
		el,
		async load(newFilter, newSort) {
			turn += 1;
			const mine = turn;
			filter = newFilter;
			sort = newSort;
			const answer = await get("foms", { ...filter, sort, limit: AT_ONCE });
			if (mine !== turn) return;
			rows = answer.page;
			next = answer.next;
			view.scrollTop = 0;
			setAttr(view, "aria-rowcount", answer.foms);
			redraw();
			onLoaded(answer, rows.length, true, false);
		},
		close: () => resize.disconnect(),
	};
}

/** The groups of a survey, as links that narrow the filter. */
export function groupChips(groups, filter) {
	const sums = new Map();
	for (const of of groups) {
		const key = `${of.operation}\n${of.phase}\n${of.wait ?? of.state}`;
		const sum = sums.get(key) ?? { ...of, foms: 0 };
		sum.foms += of.foms;
		sums.set(key, sum);
	}
	const most = [...sums.values()].sort((a, b) => b.foms - a.foms).slice(0, 12);
	return most.map((of) => h("a.chip", { href: href.foms({ ...filter, type: of.operation, phase: of.phase, ...(of.wait ? { wait: of.wait } : { state: of.state }) }) },
		`${filter.type ? "" : `${of.operation} `}${of.phase} · ${of.wait ?? of.state} `, h("b.num", count(of.foms))));
}
