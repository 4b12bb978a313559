// The frame of the page.

import { ApiError, get, setToken, takeToken, token } from "./requests.js";
import { askToken } from "./actions.js";
import { absent } from "./cards.js";
import { announce, h, setAttr, setText } from "./dom.js";
import { count, duration, short } from "./format.js";
import { fomView } from "./fom.js";
import { parseFilter } from "./foms.js";
import { admissionView, allPartsView, failuresView, fomsView, journalView, localitiesView, recorderView, servicesView, waitsView, warningsView } from "./lists.js";
import { hold, held, loadSummary, restart, state, subscribe } from "./live.js";
import { loadMachine, machineView } from "./machine.js";
import { overviewView } from "./overview.js";
import { href, onNavigate, parse } from "./routes.js";

const main = document.getElementById("main");
const nav = document.getElementById("nav");

/** name in the path, text, resource, how to make it */
const VIEWS = [
	["", "Machines", "summary", () => overviewView()], ["foms", "Operations", "foms", (query) => fomsView(query)], ["waits", "Waits", "waits", waitsView], ["localities", "Localities", "localities", localitiesView],
	["admission", "Admission", "admissions", admissionView], ["services", "Services", "services", servicesView], ["journal", "Journal", "journal", journalView], ["warnings", "Warnings", "warnings", warningsView],
	["parts", "Parts", "parts", allPartsView], ["failures", "Failures", "failures", failuresView], ["recorder", "Recorder", "recorder", recorderView],
];

let current = null;
let turn = 0;

async function make({ parts, query }) {
	const [name = "", ...rest] = parts;
	if (name === "machines" && rest.length > 0) {
		const fom = query.get("fom");
		return machineView(rest[0], rest[1] ?? null, Number(fom) || null);
	}
	if (name === "foms" && rest.length > 0) return fomView(Number(rest[0]), loadMachine);
	const found = VIEWS.find(([path]) => path === name) ?? (name === "machines" ? VIEWS[0] : null);
	if (!found) return message("There is no such view", `The page has no view at ${location.pathname}.`);
	const [, text, resource, build] = found;
	if (state.summary && !state.summary.resources.includes(resource)) {
		const why = await get(resource).then(() => null, (error) => error);
		if (why) return { el: absent(text, why.message), title: text.toLowerCase() };
	}
	return build(query);
}

function message(title, text) {
	return { el: h("section.card.absent", h("h1", title), h("p", text), h("p", h("a.link", { href: "/" }, "To the machines"))), title };
}

async function show() {
	const route = parse(location);
	const [name = "", ...rest] = route.parts;
	markNav(name);
	const fom = route.query.get("fom");
	if (current?.key === `machine ${rest[0]}` && name === "machines") {
		current.turn(rest[1] ?? null, Number(fom) || null);
		return titled();
	}
	if (current?.key === "foms" && name === "foms" && rest.length === 0) {
		current.turnQuery(route.query);
		return titled();
	}
	turn += 1;
	const mine = turn;
	let view;
	try {
		if (!state.summary) await loadSummary();
		view = await make(route);
	} catch (error) {
		if (!(error instanceof ApiError)) throw error;
		if (error.code === "token") return needToken(error);
		view = message(error.status === 404 ? "Not there" : error.code === "unreachable" ? "The program does not answer" : "The program refused this", error.message);
		view.isFailed = error.code === "unreachable";
	}
	if (mine !== turn) return view.close?.();
	current?.close?.();
	current = view;
	main.replaceChildren(view.el);
	titled();
	view.update?.();
	scrollTo(0, 0);
}

function titled() {
	const title = `${current.title} · ${state.summary?.program ?? "fom"}`;
	if (document.title !== title) {
		document.title = title;
		announce(current.title);
	}
}

async function needToken(error) {
	if (token()) setToken(null);
	main.replaceChildren(message("This program asks for its token", error.message).el);
	if (await askToken(error.message)) {
		restart();
		show();
	}
}

function markNav(name) {
	for (const link of nav.children) setAttr(link, "aria-current", link.dataset.name === (name === "machines" ? "" : name) ? "page" : null);
}

function buildNav() {
	const resources = state.summary.resources;
	const wanted = VIEWS.filter(([, , resource]) => resources.includes(resource));
	if (nav.dataset.shape === resources.join()) return;
	nav.dataset.shape = resources.join();
	nav.replaceChildren(...wanted.map(([name, text]) => h("a", { href: name ? href.view(name) : "/", "data-name": name }, text, h("span.badge", { hidden: true, "data-badge": name }))));
	markNav(parse(location).parts[0] ?? "");
}

function badge(name, value, className) {
	const el = nav.querySelector(`[data-badge="${name}"]`);
	if (!el) return;
	el.hidden = !value;
	el.className = `badge ${className}`;
	setText(el, value ? short(value) : "");
}

function frame() {
	const { summary, live } = state;
	const pill = document.getElementById("live");
	pill.className = `pill live ${state.link}`;
	const text = { connecting: "connecting", live: `live${state.pace >= 0.1 ? ` · ${state.pace < 0.95 ? state.pace.toFixed(1) : Math.round(state.pace)}/s` : ""}`, paused: "paused", lost: "lost" }[state.link];
	setText(document.getElementById("link"), text);
	setAttr(pill, "aria-pressed", held() ? "true" : "false");
	banner();
	if (!summary) return;
	buildNav();
	setText(document.getElementById("program"), summary.program);
	const up = live?.now ?? summary.now;
	setText(document.getElementById("about"), `up ${up < 100 ? `${Math.floor(up)} s` : duration(up - (up % 60))} · ${count(summary.localities)} ${summary.localities === 1 ? "locality" : "localities"}${summary.journal ? " · journal on" : ""}`);
	const mode = document.getElementById("mode");
	setText(mode, !summary.actions.enabled ? "read only" : token() ? "actions on" : "actions: token");
	setAttr(mode, "title", summary.actions.enabled ? "Enter or forget the token" : "Inspector::actions(token) turns actions on");
	badge("journal", live?.quarantine ?? summary.quarantine, "");
	badge("warnings", live?.warnings ?? summary.warnings, "");
	current?.update?.();
}

let lostAt = 0;
function banner() {
	if (state.link !== "lost") lostAt = 0;
	else lostAt ||= performance.now();
	const isShown = lostAt > 0 && performance.now() - lostAt > 1500;
	let el = document.getElementById("lost");
	if (!isShown) return el?.remove();
	if (!el) {
		el = h("div", { id: "lost", role: "alert" });
		document.body.append(el);
	}
	setText(el, `${state.error?.code === "version" ? "" : "No connection to the program: "}${state.error?.message ?? "it does not answer"}.${state.seen ? ` The page shows its state of ${duration((performance.now() - state.seen) / 1000)} ago.` : ""}`);
}
setInterval(() => state.link === "lost" && frame(), 1000);

// The search.
const box = document.getElementById("q");
const found = document.getElementById("found");
let asked = null;
let picked = 0;

function options(list) {
	found.replaceChildren(...list);
	found.hidden = list.length === 0;
	setAttr(box, "aria-expanded", String(list.length > 0));
	mark(0);
}

function mark(index) {
	const all = [...found.querySelectorAll("a")];
	picked = all.length ? (index + all.length) % all.length : 0;
	all.forEach((of, at) => {
		setAttr(of, "aria-selected", at === picked ? "true" : "false");
		setAttr(of, "id", `found-${at}`);
	});
	setAttr(box, "aria-activedescendant", all.length ? `found-${picked}` : null);
	all[picked]?.scrollIntoView({ block: "nearest" });
}

const option = (url, ...inside) => h("a", { href: url, role: "option", tabindex: -1 }, ...inside);

async function search() {
	asked?.abort();
	const text = box.value.trim();
	if (!text) return options([]);
	if (/^[a-z_]+[:>=]/.test(text)) {
		const { filter, error } = parseFilter(text);
		return options([error ? h("p.bad", error) : option(href.foms(filter), "List the foms of this filter", h("span.end", "Enter"))]);
	}
	asked = new AbortController();
	try {
		const answer = await get("find", { q: text }, asked.signal);
		const list = [
			...answer.machines.map((of) => option(href.machine(of.type, of.phase), h("b", of.phase ?? of.type), h("span.end", of.phase ? `phase of ${of.type}` : "machine"))),
			...answer.foms.map((of) => option(href.fom(of.id), h("span.mono", of.key ?? `id ${of.id}`), h("span.end", `${of.operation} ${of.id} in ${of.phase}, ${duration(of.in_phase)}`))),
		];
		if (answer.more) list.push(option(href.foms({ key_prefix: text }), "All foms whose key begins so"));
		options(list.length ? list : [h("p.dim", "No fom has this id or a key that begins so, and no machine this name.")]);
		announce(list.length ? `${list.length} found` : "nothing found");
	} catch (error) {
		if (error.name !== "AbortError") options([h("p.bad", error.message)]);
	}
}

let waiting = 0;
box.addEventListener("input", () => {
	clearTimeout(waiting);
	waiting = setTimeout(search, 120);
});
box.addEventListener("focus", () => box.value && search());
box.addEventListener("keydown", (event) => {
	if (event.key === "ArrowDown" || event.key === "ArrowUp") {
		event.preventDefault();
		mark(picked + (event.key === "ArrowDown" ? 1 : -1));
	} else if (event.key === "Escape") {
		options([]);
		box.blur();
	}
});
document.getElementById("find").addEventListener("submit", async (event) => {
	event.preventDefault();
	clearTimeout(waiting);
	await search();
	const link = found.querySelectorAll("a")[picked];
	if (!link) return;
	link.click();
	box.blur();
});
document.addEventListener("click", (event) => {
	const isChosen = event.target.closest("#found a");
	if (isChosen) box.value = "";
	if (isChosen || !event.target.closest("#find")) options([]);
});

// Keys and buttons.
document.addEventListener("keydown", (event) => {
	if (event.ctrlKey || event.metaKey || event.altKey || event.target.closest("input, textarea, select, dialog")) return;
	if (event.key === "/") {
		event.preventDefault();
		box.focus();
		box.select();
	} else if (event.key === "p") hold(!held());
	else if (/^[1-9]$/.test(event.key)) nav.children[Number(event.key) - 1]?.click();
});
document.getElementById("live").addEventListener("click", () => hold(!held()));
document.getElementById("mode").addEventListener("click", async () => {
	if (!state.summary?.actions.enabled) return;
	if (token()) setToken(null);
	else await askToken("Actions need the token that the program gave to its inspector. This tab keeps it until it is closed.");
	frame();
});
document.addEventListener("fom-token", frame);

takeToken();
subscribe(() => {
	if (current?.isFailed && state.link === "live") {
		current = null;
		show();
	}
	frame();
});
onNavigate(show);
addEventListener("hashchange", takeToken);
restart();
show();
