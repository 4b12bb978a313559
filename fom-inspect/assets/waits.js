// The wait-for graph: an arrow leads from each fom to what it waits for.

import { s, setAttr } from "./dom.js";
import { count, duration } from "./format.js";
import { href } from "./routes.js";

let W = 176;
const H = 42;
let GAP_X = 84;
const GAP_Y = 14;

const sinceText = (of) => `${duration(of.wait.waited)} in ${of.phase}`;

/** The nodes and arrows of an answer of `waits`; many waiters of the same holder become one node. */
function graphOf(answer, most) {
	const nodes = new Map();
	const edges = [];
	const cycle = new Set();
	for (const { waits } of answer.deadlocks) {
		waits.forEach((of, index) => cycle.add(`${of.fom}>${waits[(index + 1) % waits.length].fom}`));
	}
	const all = new Map();
	for (const of of [...answer.deadlocks.flatMap((of) => of.waits), ...answer.waits]) all.set(`${of.fom}|${of.wait.kind}|${of.wait.text}`, of);
	const isWaiting = new Set([...all.values()].map((of) => of.fom));
	for (const of of all.values()) {
		const from = fomNode(nodes, of.fom);
		Object.assign(from, { label: `${of.operation} ${of.fom}`, sub: sinceText(of), key: of.key, waited: of.wait.waited });
		const holders = of.wait.holders.length > 0 ? of.wait.holders : [{ fom: null, name: of.wait.subject ?? of.wait.text }];
		for (const holder of holders) {
			const to = holder.fom === null ? thing(nodes, holder.name) : fomNode(nodes, holder.fom);
			if (holder.fom !== null && !isWaiting.has(holder.fom)) Object.assign(to, named(holder.name));
			const isCycle = holder.fom !== null && cycle.has(`${of.fom}>${holder.fom}`);
			edges.push({ from: from.id, to: to.id, kind: of.wait.kind, text: of.wait.text, isCycle });
			if (isCycle) from.isCycle = to.isCycle = true;
		}
	}
	for (const edge of edges) {
		nodes.get(edge.to).waiters.push(edge.from);
		nodes.get(edge.from).targets.push(edge.to);
	}
	collapse(nodes, edges, most);
	return { nodes, edges: edges.filter((of) => nodes.has(of.from) && nodes.has(of.to)) };
}

/** "Call 7 (key a) in Ring" in two lines. */
function named(text) {
	const match = /^(.*?)(?: \(key (.*)\))? in (\S+)$/.exec(text);
	return match ? { label: match[1], sub: `in ${match[3]}`, key: match[2] ?? null } : { label: text };
}

function fomNode(nodes, id) {
	return made(nodes, `f${id}`, { label: `fom ${id}`, sub: "", href: href.fom(id) });
}

function thing(nodes, name) {
	return made(nodes, `t${name}`, { label: name, sub: "", isThing: true });
}

function made(nodes, id, more) {
	let node = nodes.get(id);
	if (!node) nodes.set(id, (node = { id, waiters: [], targets: [], key: null, waited: 0, ...more }));
	return node;
}

function collapse(nodes, edges, most) {
	for (const node of [...nodes.values()]) {
		if (node.isThing) node.sub = `${count(node.waiters.length)} await it`;
		const plain = node.waiters.map((id) => nodes.get(id)).filter((of) => of && of.waiters.length === 0 && !of.isCycle && of.targets.length === 1);
		const kept = Math.max(2, Math.min(4, Math.floor(most / 3)));
		if (plain.length <= kept + 1) continue;
		plain.sort((a, b) => b.waited - a.waited);
		const rest = plain.slice(kept);
		for (const of of rest) nodes.delete(of.id);
		const id = `m${node.id}`;
		nodes.set(id, { id, label: `${count(rest.length)} more foms`, sub: `up to ${duration(rest[0].waited)}`, isThing: true, isMore: true, waiters: [], targets: [node.id] });
		edges.push({ from: id, to: node.id, kind: "", text: "", isCycle: false });
	}
}

/** Columns: each fom is left of what it waits for, except for one arrow of each cycle. */
function ranks({ nodes, edges }) {
	const out = new Map([...nodes.keys()].map((id) => [id, []]));
	for (const edge of edges) out.get(edge.from).push(edge);
	const rank = new Map();
	const open = new Set();
	const order = [];
	function visit(id) {
		open.add(id);
		for (const edge of out.get(id)) {
			if (open.has(edge.to)) edge.isBack = true;
			else if (!rank.has(edge.to)) visit(edge.to);
		}
		open.delete(id);
		rank.set(id, 0);
		order.push(id);
	}
	const firsts = [...nodes.values()].sort((a, b) => a.waiters.length - b.waiters.length);
	for (const node of firsts) if (!rank.has(node.id)) visit(node.id);
	for (const id of order.reverse()) {
		for (const edge of out.get(id)) if (!edge.isBack) rank.set(edge.to, Math.max(rank.get(edge.to), rank.get(id) + 1));
	}
	// A holder that much waits for is near its waiters, not at the far left.
	for (const id of [...order].reverse()) {
		const ahead = out.get(id).filter((of) => !of.isBack).map((of) => rank.get(of.to));
		if (ahead.length > 0 && nodes.get(id).waiters.length === 0) rank.set(id, Math.min(...ahead) - 1);
	}
	return rank;
}

function components({ nodes, edges }) {
	const of = new Map([...nodes.keys()].map((id) => [id, id]));
	const root = (id) => {
		while (of.get(id) !== id) id = of.get(id);
		return id;
	};
	for (const edge of edges) of.set(root(edge.from), root(edge.to));
	const found = new Map();
	for (const id of nodes.keys()) {
		const at = root(id);
		if (!found.has(at)) found.set(at, []);
		found.get(at).push(id);
	}
	const worth = (ids) => (ids.some((id) => nodes.get(id).isCycle) ? 1e6 : 0) + ids.length;
	return [...found.values()].sort((a, b) => worth(b) - worth(a));
}

function place(graph, most) {
	const rank = ranks(graph);
	let y = 6;
	let width = 0;
	let left = 0;
	const drawn = new Set();
	for (const ids of components(graph)) {
		if (drawn.size > 0 && drawn.size + ids.length > most) {
			left += ids.length;
			continue;
		}
		const columns = new Map();
		for (const id of ids) {
			const at = rank.get(id);
			if (!columns.has(at)) columns.set(at, []);
			columns.get(at).push(id);
		}
		const keys = [...columns.keys()].sort((a, b) => b - a);
		const tallest = Math.max(...[...columns.values()].map((of) => of.length));
		for (const at of keys) {
			const column = columns.get(at);
			const center = (id) => {
				const spots = graph.nodes.get(id).targets.map((to) => graph.nodes.get(to)?.y).filter((of) => of !== undefined);
				return spots.length ? spots.reduce((sum, of) => sum + of, 0) / spots.length : 0;
			};
			column.sort((a, b) => center(a) - center(b));
			const offset = ((tallest - column.length) * (H + GAP_Y)) / 2;
			column.forEach((id, index) => Object.assign(graph.nodes.get(id), { x: 4 + (at - keys.at(-1)) * (W + GAP_X), y: y + offset + index * (H + GAP_Y) }));
			width = Math.max(width, 8 + (keys[0] - keys.at(-1)) * (W + GAP_X) + W);
		}
		const hasBack = graph.edges.some((of) => of.isBack && ids.includes(of.from));
		y += tallest * (H + GAP_Y) + (hasBack ? 34 : 10);
		ids.forEach((id) => drawn.add(id));
	}
	return { width, height: Math.max(y, 20), drawn, left };
}

function arrow(edge, nodes) {
	const [a, b] = [nodes.get(edge.from), nodes.get(edge.to)];
	const name = edge.isCycle ? "cycle" : null;
	const [ay, by] = [a.y + H / 2, b.y + H / 2];
	let path;
	let label;
	if (edge.isBack || b.x <= a.x) {
		const low = Math.max(a.y, b.y) + H + 20;
		path = `M${a.x + W / 2} ${a.y + H}C${a.x + W / 2} ${low + 12} ${b.x + W / 2} ${low + 12} ${b.x + W / 2} ${b.y + H + 7}`;
		label = [(a.x + b.x + W) / 2, low + 4];
	} else {
		const mid = (a.x + W + b.x) / 2;
		path = `M${a.x + W} ${ay}C${mid} ${ay} ${mid} ${by} ${b.x - 8} ${by}`;
		label = [mid, (ay + by) / 2 - 5];
	}
	const tip = edge.isBack || b.x <= a.x ? `M${b.x + W / 2 - 5} ${b.y + H + 9}l5 -9l5 9z` : `M${b.x - 9} ${by - 5}l9 5l-9 5z`;
	return [s("path", { class: name, d: path }, s("title", edge.text)), s("path", { class: edge.isCycle ? "tip cycle" : "tip", d: tip }), s("text.small.kind", { x: label[0], y: label[1] }, edge.isCycle ? `${edge.kind} · cycle` : edge.kind)];
}

function cut(text, length) {
	return text.length > length ? `${text.slice(0, length - 1)}…` : text;
}

function box(node) {
	const inside = [
		s("rect", { x: node.x, y: node.y, width: W, height: H, rx: node.isThing ? 16 : 8 }), s("text", { x: node.x + 12, y: node.y + 18 }, cut(node.label, W / 7.6)),
		s("text.small", { x: node.x + 12, y: node.y + 33 }, cut(`${W < 150 || node.key === null || node.key === undefined ? "" : `${cut(String(node.key), 11)} · `}${node.sub}`, W / 6.4)), s("title", `${node.label}${node.key ? ` (key ${node.key})` : ""} ${node.sub}`),
	];
	const className = `${node.isThing ? "thing" : ""}${node.isCycle ? " cycle" : ""}`;
	return node.href ? s("a", { href: node.href, class: className }, ...inside) : s("g", { class: className }, ...inside);
}

/** Draws the graph into `into`. Returns the number of foms left out. */
export function drawWaits(into, answer, most = 160) {
	const isSmall = most < 20;
	[W, GAP_X] = isSmall ? [118, 26] : [188, 92];
	if (isSmall && answer.deadlocks.length > 0) answer = { ...answer, waits: [] };
	const graph = graphOf(answer, most);
	const { width, height, drawn, left } = place(graph, most);
	const edges = graph.edges.filter((of) => drawn.has(of.from) && drawn.has(of.to));
	const shape = [...drawn].sort().join() + edges.map((of) => `${of.from}>${of.to}`).sort().join();
	if (into.dataset.shape === shape) {
		for (const text of into.querySelectorAll("[data-node]")) {
			const node = graph.nodes.get(text.dataset.node);
			if (node) text.querySelector(".small").textContent = cut(`${W > 150 && node.key ? `${cut(String(node.key), 11)} · ` : ""}${node.sub}`, W / 6.4);
		}
		return left;
	}
	into.dataset.shape = shape;
	if (drawn.size === 0) {
		into.replaceChildren();
		return left;
	}
	const svg = s("svg", { viewBox: `0 0 ${width} ${height}`, width, height, role: "group", "aria-label": "What waits for what" });
	svg.style.minWidth = `${Math.round(width * 0.72)}px`;
	for (const edge of edges) svg.append(...arrow(edge, graph.nodes).slice(0, isSmall ? 2 : 3));
	for (const id of drawn) {
		const el = box(graph.nodes.get(id));
		setAttr(el, "data-node", id);
		svg.append(el);
	}
	into.replaceChildren(svg);
	return left;
}
