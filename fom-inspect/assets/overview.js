// The first view: all machines at a glance.

import { sparkline } from "./charts.js";
import { sideCards } from "./cards.js";
import { brief, h, keyed, setAttr, setClass, setText } from "./dom.js";
import { count, rate, short } from "./format.js";
import { spark, state } from "./live.js";
import { href } from "./routes.js";

function tile() {
	const text = h("span");
	const flag = h("span.flag", { hidden: true });
	const name = h("h3", text, flag);
	const big = h("span.big");
	const docs = h("span.sub");
	const unit = h("span.sub.end", "in flight");
	const line = sparkline(40);
	const legend = h("span.legend");
	const el = h("a.tile", name, big, docs, unit, line.el, legend);
	return {
		el,
		update({ machine, warned }) {
			const live = state.live?.machines?.[machine.type];
			el.href = href.machine(machine.type);
			setText(text, machine.type);
			setText(big, short(live?.in_flight ?? machine.in_flight));
			setText(docs, brief(machine.docs) || machine.machine);
			line.update(spark(machine.type));
			const failed = live?.failed ?? machine.failed;
			setText(legend, `${rate(live?.rate ?? machine.rates.started["10s"])} begin · ${short(live?.ended ?? machine.ended)} ended${failed ? ` · ${short(failed)} failed` : ""}`);
			flag.hidden = !warned;
			setText(flag, `! ${short(warned)}`);
			setAttr(flag, "title", `${count(warned)} foms with a warning`);
			setClass(el, "warm", warned > 0);
		},
	};
}

export function overviewView() {
	const totals = h("div.totals");
	const tiles = h("div.tiles");
	let warned = new Map();
	const side = sideCards((of, type) => type, (map) => {
		warned = map;
		update();
	});
	const el = h("div.grid.overview",
		h("div.stack", h("div", totals, tiles), side.el("localities"), h("div.pair", side.el("waits", "journal"))), h("div.stack", side.el("warnings")));
	const numbers = ["in flight", "queued", "started", "ended", "failed", "late"].map((name) => {
		const value = h("b");
		totals.append(h("span.dim", value, name));
		return value;
	});

	function update() {
		const { summary, live } = state;
		if (!summary) return;
		const of = (field) => summary.machines.reduce((sum, machine) => sum + (live?.machines?.[machine.type]?.[field] ?? machine[field]), 0);
		[live?.in_flight ?? summary.in_flight, live?.queued ?? summary.queued, of("started"), of("ended"), of("failed"), of("late")].forEach((value, index) => setText(numbers[index], count(value)));
		keyed(tiles, summary.machines.map((machine) => ({ machine, warned: warned.get(machine.type) ?? 0 })), (item) => item.machine.type, tile);
		side.update();
	}
	update();
	return { el, update, title: "overview", close: side.close };
}
