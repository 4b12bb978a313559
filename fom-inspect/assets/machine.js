// A machine: its diagram, one of its phases, and one of its foms.

import { get, machinePath } from "./requests.js";
import { histogram, sparkline } from "./charts.js";
import { sideCards } from "./cards.js";
import { diagram, health, limitOf, pairs, phaseNow, sums } from "./diagram.js";
import { announce, brief, card, h, keyed, s, setClass, setText, table } from "./dom.js";
import { count, duration, percent, rate, short } from "./format.js";
import { fomCard } from "./fom.js";
import { oldestTable } from "./foms.js";
import { poll, spark, state, watch } from "./live.js";
import { href } from "./routes.js";

const SLOTS = 8;

/** The machines, each with its foms in flight and a sparkline. */
function picker(current) {
	const el = h("nav.card.picker", { "aria-label": "Machines" });
	const make = (of) => {
		const number = h("span.num");
		const speed = h("small.num");
		const line = sparkline(20);
		const link = h("a.pick", { href: href.machine(of.type), "aria-current": of.type === current ? "page" : null }, h("b", { title: of.type }, of.type), number, line.el, speed);
		return {
			el: link,
			update(now) {
				const live = state.live?.machines?.[now.type];
				setText(number, short(live?.in_flight ?? now.in_flight));
				setText(speed, rate(live?.rate ?? now.rates.started["10s"]));
				line.update(spark(now.type));
			},
		};
	};
	return { el, update: () => keyed(el, state.summary?.machines ?? [], (of) => of.type, make) };
}

function legend() {
	const sample = (className, dash) => s("svg", { viewBox: "0 0 30 10", "aria-hidden": "true" }, s("path", { class: className, d: "M1 5H29", "stroke-width": 2.4, "stroke-dasharray": dash }));
	return h("p.legend-row", h("span", sample("e"), "width: rate over 10 s"), h("span", sample("e failure"), "failure"), h("span", sample("e never"), "never taken"),
		h("span", "bar: the oldest fom against its deadline, else against p99.9"));
}

/** What is known of one phase. */
function phasePanel(machine, name) {
	const phase = machine.phases.find((of) => of.phase === name);
	const view = card(name, "");
	view.el.classList.add("phase-panel");
	const docs = phase.docs ? h("p.dim.docs", brief(phase.docs)) : null;
	const tags = h("p.dim.tags", tagsOf(phase));
	const hist = h("div.histbox");
	const older = h("h3.part");
	const oldest = oldestTable((of) => href.machine(machine.type, name, of.id));
	const all = h("a.link", { href: href.foms({ type: machine.type, phase: name }) });
	const exits = exitTable(machine.type);
	view.el.append(...[docs, tags, hist].filter(Boolean));
	if (!phase.end) view.el.append(older, oldest.el, h("p.more", all), h("h3.part", "Exits"), exits.el);
	return {
		el: view.el,
		update(current, live, survey, picked) {
			const now = phaseNow(current, current.phases.find((of) => of.phase === name), live, { oldest: null });
			setText(view.note, phase.end ? `${count(now.foms)} ended here` : `${count(now.foms)} foms · ${rate(now.in)} in, ${rate(now.out)} out`);
			setText(all, `all ${count(now.foms)} foms`);
			showTimes(hist, now.phase);
			if (phase.end) return;
			const limit = limitOf(now.phase);
			if (survey) {
				const words = limit?.isDeadline ? "past their deadline" : "older than p99.9";
				setClass(older, "warm", survey.older > 0);
				setText(older, limit ? `${count(survey.older)} ${words} (${duration(limit.at)})` : "Oldest foms");
				oldest.update(survey.page, (of) => health(now.phase, of.in_phase), picked);
			}
			exits.show(exitsOf(current, name, live));
		},
	};
}

function tagsOf(phase) {
	const { deadline, retry } = phase;
	const words = [phase.mode === "end" ? (phase.failure ? "failure end" : "end") : phase.mode];
	if (phase.start) words.unshift("start");
	if (deadline?.within) words.push(`within ${deadline.name ? `${deadline.name}, ` : ""}${duration(deadline.within)}${deadline.late ? ", else late" : ""}`);
	else if (deadline?.adaptive) words.push(`adaptive deadline, ${duration(deadline.adaptive.floor)} to ${duration(deadline.adaptive.ceiling)}`);
	else if (deadline) words.push("the program says its deadline");
	if (retry) words.push(`retries ${retry.times} times`);
	if (phase.takes.length > 0) words.push(`takes ${phase.takes.join(", ")}`);
	return words.join(" · ");
}

function showTimes(into, phase) {
	const shape = `${phase.count}`;
	if (into.dataset.shape === shape) return;
	into.dataset.shape = shape;
	if (phase.times.length === 0) {
		into.replaceChildren(h("p.dim", phase.end ? "" : "No fom has left this phase yet."));
		return;
	}
	const limit = limitOf(phase);
	const marks = [{ at: phase.p50, text: `p50 ${duration(phase.p50)}` }, { at: phase.p99, text: `p99 ${duration(phase.p99)}` }];
	if (limit?.isDeadline && limit.at < phase.times.at(-1)[0] * 64) marks.push({ at: limit.at, text: `deadline ${duration(limit.at)}`, isLimit: true });
	else marks.push({ at: phase.p999, text: `p99.9 ${duration(phase.p999)}` });
	into.replaceChildren(histogram(phase.times, marks.filter((of) => of.at), limit?.isDeadline ? limit.at : Infinity));
}

function exitTable(type) {
	const to = ({ pair }) => {
		const causes = [...pair.causes].filter((of) => of !== "returned").join(", ");
		return pair.to ? [h("a", { href: href.machine(type, pair.to) }, pair.to), causes && h("span.dim", ` also ${causes}`)] : h("span.bad", `failed: ${causes}`);
	};
	return table("Exits", [["leaves to", null, to], ["share", "num bar-cell", (of) => percent(of.share), true], ["after", "num", ({ pair }) => duration(pair.count ? pair.time / pair.count : null), true], ["now", "num", (of) => rate(of.perSecond), true], ["in all", "num", (of) => short(of.total), true]],
		(of) => of.pair.key, "", (row, of, cells) => cells[1].style.setProperty("--share", (of.share || 0).toFixed(3)));
}

function exitsOf(machine, name, live) {
	const out = [...pairs(machine).values()].filter((of) => of.from === name).map((pair) => ({ pair, ...sums(pair, machine, live) }));
	const total = out.reduce((sum, of) => sum + of.total, 0);
	return out.map((of) => ({ ...of, share: total ? of.total / total : null }));
}

export async function loadMachine(type) {
	return get(machinePath(type));
}

/** The view: `/view/machines/TYPE/PHASE?fom=ID`. `turn(parts, query)` changes it. */
export async function machineView(type, phaseName, fomId) {
	watch(type);
	let machine = await loadMachine(type);
	let phase = machine.phases.some((of) => of.phase === phaseName) ? phaseName : null;
	let picked = null;
	let fom = null;
	let survey = null;
	let oldest = new Map();
	let warned = new Map();
	let panel = null;
	const list = picker(type);
	const title = card(machine.machine, "");
	const numbers = h("span.end.note");
	title.heading.append(numbers);
	let drawing = diagram(machine);
	title.el.append(drawing.el, legend());
	const fomBox = h("div.fombox");
	const panelBox = h("div.panel");
	const side = sideCards((of, its) => its === type && of.phase, (map) => {
		warned = map;
		update();
	});
	const el = h("div.grid.machine", h("div.stack", h("div.first", list.el, title.el), fomBox, side.el("localities"), h("div.pair", side.el("waits", "journal"))), h("div.stack", panelBox, side.el("warnings")));

	function choose(name) {
		phase = name;
		survey = null;
		panel = phasePanel(machine, name);
		panelBox.replaceChildren(panel.el);
		update();
	}

	function pick(id) {
		if (id === picked) return;
		picked = id;
		fom?.close();
		fom = null;
		fomBox.replaceChildren();
		if (id === null) return;
		fom = fomCard(id, (of) => (of === type ? machine : null));
		fomBox.append(fom.el);
	}

	/** Without a choice of the user, the phase that needs a look most. */
	function worst() {
		let best = machine.phases.find((of) => !of.end)?.phase ?? machine.phases[0].phase;
		let most = 0;
		for (const of of machine.phases) {
			const limit = limitOf(of);
			const share = limit && oldest.has(of.phase) ? oldest.get(of.phase) / limit.at : 0;
			if (share > most && !of.end) [best, most] = [of.phase, share];
		}
		return best;
	}

	const graph = poll(async (signal) => {
		const fresh = await get(machinePath(type), {}, signal);
		const isSame = fresh.edges.length === machine.edges.length && JSON.stringify(fresh.layout) === JSON.stringify(machine.layout);
		machine = fresh;
		if (!isSame) {
			const old = drawing.el;
			drawing = diagram(machine);
			old.replaceWith(drawing.el);
		}
		update();
	}, 5);

	const surveys = poll(async (signal) => {
		const all = await get("foms", { type, limit: 0, oldest: 1 }, signal);
		oldest = new Map();
		for (const of of all.groups) if (of.oldest[0]) oldest.set(of.phase, Math.max(of.oldest[0].in_phase, oldest.get(of.phase) ?? 0));
		if (!phase) choose(worst());
		const mine = phase;
		const known = machine.phases.find((of) => of.phase === mine);
		if (!known.end) {
			const page = await get("foms", { type, phase: mine, limit: SLOTS }, signal);
			const limit = limitOf(known);
			const older = limit ? (await get("foms", { type, phase: mine, limit: 0, in_phase: limit.at }, signal)).foms : 0;
			if (mine === phase) survey = { page: page.page, older };
		}
		update();
	}, 2);

	function update() {
		const live = state.live?.machine?.type === type ? state.live.machine : null;
		const sum = state.live?.machines?.[type] ?? machine;
		list.update();
		setText(title.note, `of ${machine.operation}${machine.docs ? ` · ${brief(machine.docs)}` : ""}`);
		setText(numbers, `${count(sum.in_flight)} in flight · ${rate(sum.rate ?? machine.rates.started["10s"])} · ${count(sum.ended)} ended · ${count(sum.failed)} failed${sum.late ? ` · ${count(sum.late)} late` : ""}`);
		drawing.update({ live, oldest, warned, picked: phase });
		panel?.update(machine, live, survey, picked);
		side.update();
	}

	if (phase) choose(phase);
	pick(fomId);
	update();
	return {
		el, update, title: `${type}${phaseName ? ` · ${phaseName}` : ""}`, key: `machine ${type}`,
		turn(newPhase, newFom) {
			if (newPhase && newPhase !== phase && machine.phases.some((of) => of.phase === newPhase)) {
				choose(newPhase);
				surveys.now();
				announce(`${newPhase} is shown`);
			}
			pick(newFom);
			update();
			this.title = `${type}${newPhase ? ` · ${newPhase}` : ""}`;
			if (newFom !== null) fomBox.scrollIntoView({ block: "nearest", behavior: "smooth" });
		},
		close() {
			for (const of of [graph, surveys]) of.stop();
			fom?.close();
			side.close();
			watch(null);
		},
	};
}
