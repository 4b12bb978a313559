// The declared machine, live.

import { brief, h, keyed, s, setAttr, setClass, setText } from "./dom.js";
import { count, duration, rate, short } from "./format.js";
import { href } from "./routes.js";

const calm = matchMedia("(prefers-reduced-motion: reduce)");

/** What a phase's oldest fom is measured against: its deadline, or its p99.9. */
export function limitOf(phase) {
	const { deadline } = phase;
	if (deadline?.within) return { at: deadline.within, isDeadline: true, name: deadline.name };
	if (deadline?.adaptive?.ceiling) return { at: deadline.adaptive.ceiling, isDeadline: true, name: "adaptive" };
	if (phase.p999) return { at: phase.p999, isDeadline: false, name: null };
	return null;
}

/** `late`, `warm` or ``. */
export function health(phase, oldest) {
	const limit = limitOf(phase);
	if (!limit || !(oldest > 0) || phase.end) return "";
	if (limit.isDeadline) return oldest >= limit.at ? "late" : oldest >= limit.at * 0.8 ? "warm" : "";
	return oldest > limit.at * 1.05 && oldest > 0.05 ? "warm" : "";
}

/** The edges of a machine, with all causes of one pair of phases together. */
export function pairs(machine) {
	const found = new Map();
	for (const edge of machine.edges) {
		const key = `${edge.from ?? ""}>${edge.to ?? ""}`;
		const pair = found.get(key) ?? { key, from: edge.from, to: edge.to, keys: [], kinds: new Set(), causes: new Set(), name: null, time: 0, count: 0 };
		pair.time += edge.time;
		pair.count += edge.count;
		pair.keys.push(edge.key);
		pair.kinds.add(edge.kind);
		pair.causes.add(edge.cause);
		pair.name ??= edge.name;
		found.set(key, pair);
	}
	const ends = new Map(machine.phases.map((of) => [of.phase, of]));
	for (const pair of found.values()) {
		const isDeclared = pair.kinds.has("exit") || pair.kinds.has("start");
		pair.isFailure = pair.to === null || (!isDeclared && pair.kinds.has("failure")) || Boolean(ends.get(pair.to)?.failure);
	}
	return found;
}

/** The sums of a pair. */
export function sums(pair, machine, live) {
	let total = 0;
	let perSecond = null;
	for (const key of pair.keys) {
		const now = live?.edges?.[key];
		const then = machine.edges.find((of) => of.key === key);
		total += now?.count ?? then?.count ?? 0;
		const speed = now?.rate ?? then?.rate?.["10s"] ?? null;
		if (speed !== null) perSecond = (perSecond ?? 0) + speed;
	}
	return { total, perSecond };
}

function width(perSecond) {
	return 1.3 + Math.min(4.2, Math.log2(1 + (perSecond ?? 0)) * 0.6);
}

/** The positions by phase, and the ways by pair of phases. */
function placed({ layout }) {
	return { ...layout, nodes: new Map(layout.nodes.map((of) => [of.phase, of])), ways: new Map(layout.edges.map((of) => [`${of.from}>${of.to}`, of])) };
}

function marker(id, className) {
	return s("marker", { id, viewBox: "0 0 8 8", refX: 7, refY: 4, markerUnits: "userSpaceOnUse", markerWidth: 10, markerHeight: 10, orient: "auto-start-reverse" },
		s("path", { class: `tip ${className}`, d: "M0 0.6L8 4L0 7.4z" }));
}

function drawEdge(pair, way, machine) {
	const kind = pair.isFailure ? "failure" : "";
	const line = s("path", { class: `e ${kind}`, d: way.path });
	const pulse = s("path.pulse", { d: way.path, pathLength: 100, "stroke-dasharray": "0.01 200" });
	const label = s("text", { class: `rate ${kind}`, x: way.label[0], y: way.label[1] + 4 });
	const title = s("title");
	line.append(title);
	let last = null;
	return {
		parts: [line, pulse, label],
		update(live) {
			const { total, perSecond } = sums(pair, machine, live);
			const isNever = total === 0;
			setAttr(line, "stroke-width", width(perSecond).toFixed(2));
			setClass(line, "never", isNever);
			setAttr(line, "marker-end", `url(#tip-${isNever ? "never" : kind || "plain"})`);
			setText(label, isNever ? "" : perSecond === null ? short(total) : rate(perSecond));
			setClass(label, "idle", !perSecond);
			setText(title, `${pair.from} to ${pair.to}${pair.name ? ` (${pair.name})` : ""}: ${count(total)} since the start, ${rate(perSecond)}`);
			if (last !== null && total > last && !calm.matches && !document.hidden) {
				setAttr(pulse, "stroke-width", (width(perSecond) + 2.8).toFixed(2));
				pulse.animate([{ strokeDashoffset: 0, opacity: 0 }, { opacity: 0.95, offset: 0.15 }, { opacity: 0.95, offset: 0.85 }, { strokeDashoffset: -100, opacity: 0 }], { duration: 850, easing: "ease-in-out" });
			}
			last = total;
		},
	};
}

function drawNode(phase, { x, y, width: w, height: hh, label, count: [right] }, type) {
	const bar = { x: x + 11, y: y + hh - 10, height: 4, rx: 2 };
	const parts = {
		number: s("text.count", { x: right, y: y + 20 }), old: s("text.old", { x: x + 11, y: y + 35 }), level: s("rect.level", { ...bar, width: 0 }),
		flagText: s("text", { x: x + w - 14, y: y + 3.5 }), out: s("text.rate.failure", { x: x + w - 8, y: y + hh + 15 }),
	};
	parts.flag = s("g.flag.hidden", s("rect", { x: x + w - 32, y: y - 9, width: 36, height: 18, rx: 9 }), parts.flagText);
	const el = s("a", { class: `n${phase.end ? " end" : ""}${phase.failure ? " failure" : ""}`, href: href.machine(type, phase.phase), "data-phase": phase.phase },
		s("rect.box", { x, y, width: w, height: hh, rx: 9 }), phase.end && s("rect.inner", { x: x + 3, y: y + 3, width: w - 6, height: hh - 6, rx: 7 }),
		s("text.name", { x: x + 11, y: y + (phase.end ? hh / 2 + 5 : 20) }, `${phase.failure ? "✕ " : ""}${label}`), parts.number, parts.old,
		!phase.end && s("rect.rail", { ...bar, width: w - 22 }), !phase.end && parts.level, parts.flag, parts.out, s("title", `${phase.phase}${phase.docs ? `: ${brief(phase.docs)}` : ""}`));
	if (phase.end) setAttr(parts.number, "y", y + hh / 2 + 5);
	return { el, parts, phase, room: w - 22 };
}

function updateNode({ parts, el, room }, phase, now) {
	const { foms } = now;
	setText(parts.number, short(foms));
	setClass(parts.number, "zero", !foms || phase.end);
	if (phase.end) {
		setAttr(el, "aria-label", `${phase.phase}, ${phase.failure ? "a failure, " : ""}an end: ${count(foms)} ended here`);
		return;
	}
	const isKnown = foms > 0 && now.oldest !== null;
	setText(parts.old, isKnown ? `oldest ${duration(now.oldest)}` : foms === 0 ? "empty" : "");
	const limit = limitOf(now.phase);
	setAttr(parts.level, "width", (isKnown && limit ? Math.min(1, now.oldest / limit.at) * room : 0).toFixed(1));
	const state = isKnown ? health(now.phase, now.oldest) : "";
	setClass(el, "warm", state === "warm" || (now.warned > 0 && state !== "late"));
	setClass(el, "late", state === "late");
	setClass(parts.flag, "hidden", !now.warned);
	setText(parts.flagText, `! ${short(now.warned)}`);
	setText(parts.out, now.failed?.total > 0 ? `✕ ${now.failed.perSecond ? rate(now.failed.perSecond) : short(now.failed.total)}` : "");
	const against = limit ? `, against ${limit.isDeadline ? "a deadline" : "p99.9"} of ${duration(limit.at)}` : "";
	setAttr(el, "aria-label", `${phase.phase}: ${count(foms)} foms${isKnown ? `, the oldest ${duration(now.oldest)}${against}` : ""}${now.warned ? `, ${now.warned} warned of` : ""}`);
}

/** What is known of a phase now. */
export function phaseNow(machine, phase, live, more) {
	const now = live?.phases?.[phase.phase];
	const known = { ...phase, p50: now?.p50 ?? phase.p50, p99: now?.p99 ?? phase.p99, p999: now?.p999 ?? phase.p999 };
	const failed = more.failed?.get(`${phase.phase}>`);
	return {
		phase: known, foms: now?.foms ?? phase.foms, in: now?.in ?? phase.rates.in["10s"], out: now?.out ?? phase.rates.out["10s"],
		oldest: more.oldest?.get(phase.phase) ?? null, warned: more.warned?.get(phase.phase) ?? 0, failed: failed ? sums(failed, machine, live) : null,
	};
}

/** `update({ live, oldest, warned, picked })`; `trail` are the phases of one fom. */
export function diagram(machine) {
	if (matchMedia("(max-width: 560px)").matches) return column(machine);
	const place = placed(machine);
	const all = pairs(machine);
	const scale = Math.min(1.25, Math.max(0.72, 900 / place.width));
	const svg = s("svg", { viewBox: `0 0 ${place.width} ${place.height}`, width: Math.round(place.width * scale), height: Math.round(place.height * scale), role: "group", "aria-label": `Phases of ${machine.machine}` },
		s("defs", marker("tip-plain", ""), marker("tip-failure", "failure"), marker("tip-never", "never")));
	for (const group of place.groups ?? []) {
		svg.append(s("rect.group", { x: group.x, y: group.y, width: group.width, height: group.height, rx: 12 }), s("text.old", { x: group.x + 10, y: group.y + 15 }, group.label));
	}
	const edges = [];
	for (const pair of all.values()) {
		const way = place.ways.get(pair.key);
		if (way && pair.from !== null && pair.to !== null) edges.push(drawEdge(pair, way, machine));
	}
	svg.append(...edges.map((of) => of.parts[0]), ...edges.map((of) => of.parts[1]));
	begin(svg, machine, place);
	const nodes = new Map();
	for (const phase of machine.phases) {
		const at = place.nodes.get(phase.phase);
		if (!at) continue;
		const node = drawNode(phase, at, machine.type);
		nodes.set(phase.phase, node);
		svg.append(node.el);
	}
	svg.append(...edges.map((of) => of.parts[2]));
	return {
		el: h("div.diagram", svg),
		update(more) {
			const told = { ...more, failed: all };
			for (const edge of edges) edge.update(more.live);
			for (const node of nodes.values()) {
				updateNode(node, node.phase, phaseNow(machine, node.phase, more.live, told));
				setClass(node.el, "picked", node.phase.phase === more.picked);
				setAttr(node.el, "aria-current", node.phase.phase === more.picked ? "true" : null);
			}
		},
	};
}

function begin(svg, machine, place) {
	const first = machine.phases.find((of) => of.start);
	const at = first && place.nodes.get(first.phase);
	if (place.start) {
		svg.append(s("circle.tip", { cx: place.start.x, cy: place.start.y, r: 5 }), s("path.e", { "stroke-width": 1.5, d: place.start.path, "marker-end": "url(#tip-plain)" }));
	} else if (at && at.x >= 24) {
		const y = at.y + at.height / 2;
		svg.append(s("circle.tip", { cx: at.x - 22, cy: y, r: 5 }), s("path.e", { "stroke-width": 1.5, d: `M${at.x - 17} ${y}H${at.x}`, "marker-end": "url(#tip-plain)" }));
	}
}

/** The phases one below the other. */
function column(machine) {
	const list = h("ol.column", { "aria-label": `Phases of ${machine.machine}` });
	const all = pairs(machine);
	const make = (phase) => {
		const name = h("b", phase.phase);
		const number = h("span.num.count");
		const old = h("span.dim.old");
		const level = h("i");
		const exits = h("ul.exits");
		const link = h("a", { class: `phase${phase.end ? " end" : ""}${phase.failure ? " failure" : ""}`, href: href.machine(machine.type, phase.phase) }, name, number, old, h("span.rail", level));
		return {
			el: h("li", link, exits),
			update: ({ more }) => {
				const now = phaseNow(machine, phase, more.live, { ...more, failed: all });
				setText(number, short(now.foms));
				setText(old, phase.end ? "ended here" : now.oldest !== null && now.foms > 0 ? `oldest ${duration(now.oldest)}` : "");
				const limit = limitOf(now.phase);
				level.style.transform = `scaleX(${limit && now.oldest ? Math.min(1, now.oldest / limit.at) : 0})`;
				const state = now.foms > 0 ? health(now.phase, now.oldest) : "";
				for (const name of ["warm", "late"]) setClass(link, name, state === name);
				setAttr(link, "aria-current", phase.phase === more.picked ? "true" : null);
				const out = [...all.values()].filter((pair) => pair.from === phase.phase);
				keyed(exits, out, (pair) => pair.key, (pair) => {
					const speed = h("span.num");
					return {
						el: h("li", { class: pair.isFailure ? "failure" : null }, h("span", { "aria-hidden": "true" }, pair.isFailure ? "✕" : "→"), pair.to ?? `failed (${[...pair.causes].join(", ")})`, speed),
						update: () => setText(speed, rate(sums(pair, machine, more.live).perSecond)),
					};
				});
			},
		};
	};
	return {
		el: list,
		update(more) {
			keyed(list, machine.phases.map((phase) => ({ phase, more })), (of) => of.phase.phase, (of) => make(of.phase));
		},
	};
}
