// What packages list of themselves.

import { actionsOn, button } from "./actions.js";
import { get } from "./requests.js";
import { card, facts, h, isRead, setText, table } from "./dom.js";
import { bytes, count, duration } from "./format.js";
import { poll } from "./live.js";

const isPlain = (value) => value === null || typeof value !== "object";

function words(name) {
	return name.replaceAll("_", " ");
}

/** A plain value as text; names tell the unit. */
function plain(name, value) {
	if (value === null || value === "") return "–";
	if (typeof value === "boolean") return value ? "yes" : "no";
	if (typeof value !== "number") return String(value);
	if (/bytes/.test(name)) return bytes(value);
	if (/(seconds|_time|^time|waited|age|mean|longest|oldest|since|uptime|within|p\d+)$/.test(name)) return duration(value);
	return Number.isInteger(value) ? count(value) : String(Number(value.toPrecision(4)));
}

const LOUD = /error|failure|reason/;

/** Facts for the plain members; tables for lists of objects. */
function shown(value, label, depth = 0) {
	if (isPlain(value)) return [h("p", plain(label, value))];
	if (Array.isArray(value)) return [value.length === 0 ? h("p.dim", "none") : value.every((of) => of && !isPlain(of) && !Array.isArray(of)) ? rows(value, label) : list(value, label)];
	const known = facts();
	const rest = [];
	for (const [name, of] of Object.entries(value)) {
		if (isPlain(of)) {
			if (!(depth === 0 && name === "name")) known.set(words(name), plain(name, of), typeof of === "number" ? "num" : LOUD.test(name) && of ? "error" : name === "policy" ? "mono" : "");
		} else if (!Array.isArray(of) && Object.values(of).every(isPlain)) {
			for (const [inner, one] of Object.entries(of)) known.set(words(inner), plain(inner, one), typeof one === "number" ? "num" : "");
		} else rest.push(h("h3.part", words(name)), ...shown(of, name, depth + 1));
	}
	return [...(known.el.childElementCount ? [known.el] : []), ...rest];
}

function list(values, label) {
	const texts = values.slice(0, 100).map((of) => (isPlain(of) ? plain(label, of) : JSON.stringify(of)));
	return h("ul.plain-list", ...texts.map((text) => h("li", text)));
}

function rows(values, label) {
	const names = [...new Set(values.flatMap((of) => Object.keys(of)))].slice(0, 12);
	const column = (name) => {
		const isNumber = values.every((of) => of[name] === null || of[name] === undefined || typeof of[name] === "number");
		const text = (of) => (of[name] === undefined ? "" : isPlain(of[name]) ? plain(name, of[name]) : JSON.stringify(of[name]));
		return [words(name), isNumber ? "num" : LOUD.test(name) ? "error" : /client|key|policy/.test(name) ? "mono" : null, text];
	};
	const view = table(words(label), names.map(column), (of) => values.indexOf(of));
	view.show(values.slice(0, 300));
	return view.el;
}

export function partsView(resource, name, nothing) {
	const el = h("div.stack");
	const polling = poll(async (signal) => {
		const { parts } = await get(resource, {}, signal);
		const shape = JSON.stringify(parts);
		if (el.dataset.shape === shape || isRead(el)) return;
		el.dataset.shape = shape;
		const all = Array.isArray(parts) ? parts : [parts];
		if (all.length === 0 || parts === null) {
			const view = card(name, "");
			view.el.append(h("p.empty", nothing));
			el.replaceChildren(view.el);
			return;
		}
		const boxes = all.map((part) => {
			const view = card(isPlain(part) ? name : part.name ?? name, !isPlain(part) && part.name ? name.toLowerCase() : "");
			view.el.append(...shown(part, resource));
			if (resource === "admissions" && actionsOn()) view.el.append(...["policy", "promote"].map((action) => button(action, { action, admission: part.name }, part.name)));
			return view.el;
		});
		el.replaceChildren(...boxes);
	}, 2);
	setText(el, "");
	return { el, title: name.toLowerCase(), close: () => polling.stop() };
}
