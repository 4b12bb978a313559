// The other views: foms, waits, localities, journal, warnings, failures, parts.

import { get } from "./requests.js";
import { actionsOn, askForAll, button, downloadButton } from "./actions.js";
import { journalFacts, localitiesCard, typeOf, warningList } from "./cards.js";
import { histogram, sparkline } from "./charts.js";
import { card, facts, h, isRead, keyed, setText, table } from "./dom.js";
import { FILTERS, filterText, groupChips, parseFilter, virtualList } from "./foms.js";
import { bytes, clock, count, duration, plural, rate } from "./format.js";
import { poll, state } from "./live.js";
import { go, href } from "./routes.js";
import { drawWaits } from "./waits.js";
import { partsView } from "./parts.js";

const SORTS = [["in_phase", "longest in phase"], ["age", "oldest"], ["id", "id"]];

export function fomsView(query) {
	let filter = {};
	let sort = "in_phase";
	const view = card("Operations", "");
	const input = h("input.field", { type: "text", "aria-label": "Filter", spellcheck: "false", autocomplete: "off", placeholder: "type:Call phase:Ring age>30s waits:event key:b7*" });
	const order = h("select.button", { "aria-label": "Order" }, ...SORTS.map(([value, text]) => h("option", { value }, text)));
	const told = h("p.result.bad", { role: "alert", hidden: true });
	const chips = h("div.chips");
	const bulk = h("span.buttons");
	const list = virtualList((answer, loaded, isNew, isFull) => {
		setText(view.note, `${plural(answer.foms, "fom")} at ${clock(answer.at * 1000)}${loaded < answer.foms ? ` · ${isFull ? `the first ${count(loaded)}; narrow the filter for the others` : `${count(loaded)} loaded, more as you scroll`}` : ""}`);
		if (isNew) chips.replaceChildren(...groupChips(answer.groups, filter));
	});
	const form = h("form.filter", { role: "search" }, input, order, h("button.button", "Take a new picture"), bulk);
	view.el.append(form, told, h("div.more", chips), list.el);
	form.addEventListener("submit", (event) => {
		event.preventDefault();
		const read = parseFilter(input.value);
		told.hidden = !read.error;
		if (read.error) return setText(told, read.error);
		const { sort: named, ...rest } = read.filter;
		const url = href.foms({ ...rest, sort: named ?? (order.value === "in_phase" ? "" : order.value) });
		if (url === location.pathname + location.search) load();
		else go(url);
	});
	order.addEventListener("change", () => form.requestSubmit());

	async function load() {
		try {
			await list.load(filter, sort);
			told.hidden = true;
		} catch (error) {
			told.hidden = false;
			setText(told, error.message);
		}
	}

	function turn(next) {
		filter = Object.fromEntries(FILTERS.filter((name) => next.get(name)).map((name) => [name, next.get(name)]));
		sort = next.get("sort") ?? "in_phase";
		order.value = sort;
		input.value = filterText(filter);
		bulk.replaceChildren(...(actionsOn() && Object.keys(filter).length > 0 ? ["cancel", "wake"].map((name) => h("button", { class: `button${name === "cancel" ? " danger" : ""}`, type: "button", onclick: () => askForAll(name, filter, load) }, `${name === "cancel" ? "Cancel" : "Wake"} all…`)) : []));
		load();
	}
	turn(query);
	return { el: view.el, title: "operations", key: "foms", turnQuery: turn, close: () => list.close() };
}

const key = (of) => of.key ?? "–";
const fomLink = (id, text = id) => (id === null ? text : h("a", { href: href.fom(id) }, text));
const attempts = (list) => list.map((of) => h("div.dim", `attempt ${of.number}: ${of.error}`));
const subject = (of) => `${of.operation ?? "entry"} ${of.id ?? ""}${of.key === null ? "" : ` (key ${of.key})`}`;

export function waitsView() {
	const view = card("Waits");
	const changed = h("button.button", { hidden: true, type: "button" }, "The graph has changed: show it");
	const box = h("div.waits");
	const rest = h("p.dim");
	const rows = card("All waits");
	const list = table("Waits", [
		["fom", null, (of) => fomLink(of.fom, `${of.operation} ${of.fom}`)], ["key", "mono", key], ["phase", null, (of) => of.phase], ["waits for", null, (of) => of.wait.text],
		["since", "num", (of) => duration(of.wait.waited), true], ["held by", null, (of) => of.wait.holders.flatMap((one) => [fomLink(one.fom, one.name), " "])],
	], (of) => `${of.fom} ${of.wait.kind} ${of.wait.text}`, "No fom waits for another.");
	rows.el.append(list.el);
	view.el.append(changed, box, rest);
	const keys = keysCard();
	let latest = null;
	const draw = () => {
		changed.hidden = true;
		const left = drawWaits(box, latest);
		setText(rest, left > 0 ? `${count(left)} more foms are in smaller parts of the graph: see the list.` : "");
	};
	changed.addEventListener("click", draw);
	const polling = poll(async (signal) => {
		latest = await get("waits", { limit: 1000 }, signal);
		const { total, deadlocks, waits } = latest;
		view.note.className = deadlocks.length ? "note bad" : "note";
		setText(view.note, `${deadlocks.length ? plural(deadlocks.length, "cycle") : "no cycle"} · ${plural(total, "fom")} wait${total === 1 ? "s" : ""} for another or for a part of the program`);
		if (isRead(box) && box.childElementCount > 0) changed.hidden = false;
		else draw();
		list.show(waits.slice(0, 300));
		setText(rows.note, total > 300 ? `300 of ${count(total)}` : "");
	}, 3);
	return { el: h("div.stack", view.el, keys.el, rows.el), title: "waits", close: () => { polling.stop(); keys.close(); } };
}

function keysCard() {
	const view = card("Keys", "that foms wait for, or that are suspended");
	const action = (of) => {
		if (of.suspended === 0) return "";
		const body = { action: "resume", type: typeOf(of.operation), key: of.key };
		return of.by_inspector && actionsOn() ? button("resume", body, subject(of), { onDone: () => polling.now() }) : "suspended";
	};
	const list = table("Keys", [
		["key", "mono", key], ["type", null, (of) => of.operation], ["held by", null, (of) => of.holders.slice(0, 5).flatMap((id) => [fomLink(id), " "])],
		["waiting", "num", (of) => count(of.waiting.length), true], ["", null, action],
	], (of) => `${of.operation} ${of.key} ${of.suspended} ${of.holders}`);
	view.el.append(list.el);
	view.el.hidden = true;
	const polling = state.summary?.resources.includes("keys") ? poll(async (signal) => {
		const { keys } = await get("keys", { limit: 200 }, signal);
		view.el.hidden = keys.length === 0;
		list.show(keys);
	}, 3) : null;
	return { el: view.el, close: () => polling?.stop() };
}

function localityCard() {
	const view = card("");
	const known = facts();
	const hist = h("div");
	view.el.append(known.el, h("h3.part", "From ready to running"), hist);
	return {
		el: view.el,
		update(of) {
			setText(view.title, `Locality ${of.index}`);
			setText(view.note, of.cpus.length ? `cpu ${of.cpus.join(", ")}` : "");
			known.set("foms", count(of.foms), "num");
			known.set("ready", count(of.ready), "num");
			known.set("runs", `${count(of.runs)} · ${rate(of.rates?.runs?.["10s"])}`, "num");
			known.set("threads", `${count(of.threads)}${of.blocked_threads ? `, ${count(of.blocked_threads)} blocked` : ""}`, "num");
			known.set("inbox", count(of.inbox), "num");
			known.set("longest run", duration(of.measured?.longest_run), "num");
			known.set("runs now", of.measured?.running ? `for ${duration(of.measured.running)}` : "no", of.measured?.running > 0.1 ? "num warm" : "");
			const times = (of.measured?.ready ?? []).filter(([bound]) => bound > 0);
			const total = times.reduce((sum, [, n]) => sum + n, 0);
			if (hist.dataset.shape === String(total)) return;
			hist.dataset.shape = String(total);
			const at = (share) => { let sum = 0; return times.find(([, n]) => (sum += n) >= total * share)?.[0]; };
			const marks = [[0.5, "p50"], [0.99, "p99"]].map(([share, name]) => ({ at: at(share), text: `${name} ${duration(at(share))}` }));
			hist.replaceChildren(total ? histogram(times, marks) : h("p.empty", "nothing measured yet"));
		},
	};
}

export function localitiesView() {
	const strips = localitiesCard("tall");
	const boxes = h("div.tiles");
	const polling = poll(async (signal) => keyed(boxes, (await get("localities", {}, signal)).localities, (of) => of.index, localityCard), 2);
	return { el: h("div.stack", strips.el, boxes), update: strips.update, title: "localities", close: () => { polling.stop(); strips.close(); } };
}

export function journalView() {
	const view = card("Journal");
	const known = facts();
	const line = sparkline(46);
	const speeds = [];
	view.el.append(known.el, h("h3.part", "Syncs by second ", h("span.note", "since the page shows this view")), line.el);
	const quarantine = card("Quarantine");
	const onDone = () => polling.now();
	const list = table("Quarantine", [
		["entry", null, (of) => `${of.operation ?? "?"} ${of.id}`], ["key", "mono", key], ["phase", null, (of) => `${of.phase ?? "?"}${of.version === null ? "" : `, version ${of.version}`}`],
		["reason", "wrap", (of) => [h("span.dim", `${of.kind.replace("_", " ")}: `), of.failure?.cause ?? of.reason, attempts(of.failure?.attempts ?? [])]], ["bytes", "num", (of) => count(of.bytes)],
		["", null, (of) => actionsOn() && h("span.buttons", button("retry", { action: "retry", id: of.id }, subject(of), { onDone }), downloadButton(`journal/${of.id}`, `quarantine-${of.id}.bin`), button("discard", { action: "discard", id: of.id }, subject(of), { onDone }))],
	], (of) => of.id, "No entry is in quarantine.");
	quarantine.el.append(list.el);
	let before = null;
	const polling = poll(async (signal) => {
		const answer = await get("journal", { limit: 300 }, signal);
		const { journal } = answer;
		const { foms } = await get("foms", { wait: "journal", limit: 0 }, signal);
		journalFacts(known, journal);
		known.set("syncs", count(journal.syncs), "num");
		known.set("written in all", bytes(journal.written_bytes), "num");
		known.set("moved to compact", bytes(journal.moved_bytes), "num");
		known.set("held up", foms ? h("a.link", { href: href.foms({ wait: "journal" }) }, `${plural(foms, "fom")} wait${foms === 1 ? "s" : ""} for the journal`) : "no fom");
		if (before && answer.now > before.now) speeds.push((journal.syncs - before.syncs) / (answer.now - before.now));
		before = { now: answer.now, syncs: journal.syncs };
		line.update(speeds.slice(-60));
		const { total, counts, entries } = answer.quarantine;
		setText(quarantine.note, total ? Object.entries(counts).filter(([, n]) => n > 0).map(([name, n]) => `${count(n)} ${name.replace("_", " ")}`).join(", ") : "");
		list.show(entries);
	}, 2);
	return { el: h("div.stack", view.el, quarantine.el), title: "journal", close: () => polling.stop() };
}

export function warningsView() {
	const view = card("Warnings");
	const list = warningList();
	const none = h("p.empty");
	view.el.append(none, list.el);
	const past = card("Incidents", "problems that ended no operation, and the actions, the latest first");
	const rows = table("Incidents", [
		["kind", null, (of) => of.kind], ["subject", null, (of) => of.subject], ["what", "wrap", (of) => of.text], ["times", "num", (of) => count(of.count), true], ["last", "num", (of) => `${duration(of.age)} ago`, true],
	], (of) => `${of.kind} ${of.subject} ${of.text}`, "None so far.");
	past.el.append(rows.el);
	const polling = poll(async (signal) => {
		const { warnings, incidents } = await get("warnings", {}, signal);
		none.hidden = Boolean(warnings?.length);
		setText(none, warnings === null ? "The program does not watch for warnings: Builder::watch turns them on." : "No warning now.");
		setText(view.note, warnings?.length ? `${count(warnings.length)} now` : "");
		if (!isRead(list.el)) list.update(warnings ?? []);
		rows.show([...incidents].reverse());
	}, 2);
	return { el: h("div.stack", view.el, past.el), title: "warnings", close: () => polling.stop() };
}

export function failuresView() {
	const view = card("Failures");
	const phase = (of) => {
		const type = typeOf(of.operation);
		return [h("span.dim", of.path.slice(-2).map((name) => `${name} › `)), type ? h("a", { href: href.machine(type, of.phase) }, of.phase) : of.phase];
	};
	const again = (of) => of.resubmit && actionsOn() && state.summary.actions.resubmit.includes(typeOf(of.operation)) &&
		button("resubmit", { action: "resubmit", id: of.id }, `${subject(of)} in ${of.phase}`, { onDone: () => polling.now() });
	const rows = table("Failures", [
		["operation", null, (of) => of.operation], ["key", "mono", key], ["failed in", null, phase], ["cause", "wrap", (of) => [h("span.error", of.cause), attempts(of.attempts)]], ["ago", "num", (of) => duration(of.age), true], ["", null, again],
	], (of) => of.id, "No failure is retained.");
	view.el.append(rows.el);
	const polling = poll(async (signal) => {
		const { failures, total } = await get("failures", { limit: 300 }, signal);
		setText(view.note, total ? `the last ${count(failures.length)}${total > failures.length ? ` of ${count(total)}` : ""}; the quarantine of the journal holds others` : "");
		rows.show(failures);
	}, 2);
	return { el: view.el, title: "failures", close: () => polling.stop() };
}

export const admissionView = () => partsView("admissions", "Admission", "No admission is listed.");
export const servicesView = () => partsView("services", "Services", "No service is listed.");
export const allPartsView = () => partsView("parts", "Parts", "The program has named no part.");

export function recorderView() {
	const view = partsView("recorder", "Recorder");
	const box = h("div.buttons", downloadButton("recorder/trace", "recording.json", "Download all for Perfetto"));
	return { ...view, el: h("div.stack", box, view.el) };
}
