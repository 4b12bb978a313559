// Small drawings: sparklines, histograms, heat strips.

import { h, s, setAttr } from "./dom.js";
import { count, duration, tick } from "./format.js";

/** A line of the last two minutes. `update(points)`. */
export function sparkline(height = 40) {
	const area = s("path.area");
	const line = s("path.line");
	const el = s("svg.spark", { viewBox: `0 0 118 ${height}`, preserveAspectRatio: "none", "aria-hidden": "true" }, area, line);
	return {
		el,
		update(points) {
			if (points.length < 2) return;
			const most = Math.max(...points, 1e-9);
			const least = Math.min(...points);
			// A line that hardly moves stays in the middle.
			const low = Math.min(least, most * 0.7);
			const span = most - low || 1;
			const first = 60 - points.length;
			const at = (value, index) => `${((first + index) * 2).toFixed(1)} ${(height - 3 - ((value - low) / span) * (height - 7)).toFixed(1)}`;
			const path = `M${points.map(at).join("L")}`;
			setAttr(line, "d", path);
			setAttr(area, "d", `${path}V${height}H${first * 2}Z`);
		},
	};
}

/**
 * Times in a phase over a logarithmic axis. `times` is `[[bound, count], ..]`; `marks` is `[{ at, text, isLimit }]`;
 * bars from `late` seconds on differ.
 */
export function histogram(times, marks, late = Infinity) {
	const width = 336;
	const top = 30;
	const bottom = 112;
	const total = times.reduce((sum, [, of]) => sum + of, 0);
	const el = s("svg.hist", { viewBox: `0 0 ${width} 130`, role: "img" });
	if (total === 0) return el;
	const bins = binned(times, marks);
	const most = Math.max(...bins.map((of) => of.count));
	const step = width / bins.length;
	const x = (seconds) => ((Math.log2(seconds) - bins[0].from) / (bins.at(-1).to - bins[0].from)) * width;
	bins.forEach((bin, index) => {
		if (bin.count === 0) return;
		const height = Math.max(1.5, (bin.count / most) * (bottom - top));
		const low = index === 0 ? 0 : 2 ** bin.from;
		el.append(s("rect", { class: 2 ** bin.from >= late * 0.99 ? "b late" : "b", x: (index * step + 0.6).toFixed(1), y: (bottom - height).toFixed(1), width: Math.max(1, step - 1.2).toFixed(1), height: height.toFixed(1), rx: Math.min(2, step / 4) }, s("title", `${duration(low)} to ${duration(2 ** bin.to)}: ${count(bin.count)} foms`)));
	});
	el.append(s("line.axis", { x1: 0, x2: width, y1: bottom + 0.5, y2: bottom + 0.5 }));
	axis(el, bins, step, bottom);
	markers(el, marks, x, width, top, bottom);
	const said = marks.filter((of) => !of.isLimit).map((of) => `${of.text}`).join(", ");
	setAttr(el, "aria-label", `Times of ${count(total)} foms${said ? `: ${said}` : ""}`);
	return el;
}

/** Steps of a half octave, or wider if there are many. */
function binned(times, marks) {
	const shown = [...times.map(([bound]) => Math.max(bound, 1e-7)), ...marks.filter((of) => of.at > 0 && of.at < Infinity).map((of) => of.at)];
	let from = Math.floor(Math.log2(Math.min(...shown))) - 1;
	let to = Math.ceil(Math.log2(Math.max(...shown)) + 0.01);
	if (to - from < 6) [from, to] = [from - Math.floor((6 - to + from) / 2), to + Math.ceil((6 - to + from) / 2)];
	const size = to - from > 18 ? 1 : 0.5;
	const bins = [];
	for (let at = from; at < to; at += size) bins.push({ from: at, to: at + size, count: 0 });
	for (const [bound, of] of times) {
		const index = Math.floor((Math.log2(Math.max(bound, 1e-7)) - from) / size - 1e-9);
		bins[Math.max(0, Math.min(bins.length - 1, index))].count += of;
	}
	return bins;
}

/** Round times, in seconds. */
export const ROUND = [
	1e-6, 1e-5, 1e-4, 1e-3, 2e-3, 5e-3, 0.01, 0.02, 0.05, 0.1, 0.2, 0.5, 1, 2, 5, 10, 15, 30, 60, 120, 300, 600, 1800, 3600, 7200, 21600, 86400, 7 * 86400,
];

function axis(el, bins, step, bottom) {
	const from = bins[0].from;
	const size = bins[0].to - from;
	let last = -Infinity;
	for (const seconds of ROUND) {
		const x = ((Math.log2(seconds) - from) / size) * step;
		if (x < 10 || x > step * bins.length - 14 || x - last < 40) continue;
		last = x;
		el.append(s("text", { x: x.toFixed(1), y: bottom + 13 }, tick(seconds)));
	}
}

/** Labels are in two rows. One that would cover others is left out. */
function markers(el, marks, x, width, top, bottom) {
	const ends = [-Infinity, -Infinity];
	for (const mark of [...marks].sort((a, b) => a.at - b.at)) {
		if (!(mark.at > 0) || mark.at === Infinity) continue;
		const at = x(mark.at);
		if (at < 0 || at > width) continue;
		const length = mark.text.length * 5.7;
		const left = Math.min(Math.max(at - length / 2, 0), width - length);
		const row = ends.findIndex((end) => left > end + 6);
		if (row < 0) continue;
		ends[row] = left + length;
		const name = mark.isLimit ? " limit" : "";
		el.append(
			s("line", { class: name.trim() || null, x1: at.toFixed(1), x2: at.toFixed(1), y1: row === 0 ? 13 : 26, y2: bottom }),
			s("text", { class: `q${name}`, x: (left + length / 2).toFixed(1), y: row === 0 ? 10 : 23 }, mark.text),
		);
	}
}

// From dark to bright in one direction: the order is also visible without colours.
const HEAT_DARK = [[22, 42, 62], [22, 72, 102], [32, 118, 140], [92, 170, 140], [214, 200, 96], [255, 236, 170]];
const HEAT_LIGHT = [[233, 240, 245], [176, 212, 230], [98, 166, 200], [40, 112, 160], [52, 58, 120], [48, 12, 66]];

function heat(share) {
	const scale = matchMedia("(prefers-color-scheme: dark)").matches ? HEAT_DARK : HEAT_LIGHT;
	const at = Math.max(0, Math.min(1, share)) * (scale.length - 1);
	const index = Math.min(scale.length - 2, Math.floor(at));
	const mix = scale[index].map((of, channel) => Math.round(of + (scale[index + 1][channel] - of) * (at - index)));
	return `rgb(${mix.join(" ")})`;
}

/** A strip of the last 5 minutes. */
export function heatStrip(label) {
	const el = h("canvas", { role: "img", "aria-label": label, width: 900, height: 20 });
	return {
		el,
		update(values, cells = 150) {
			const scale = Math.min(3, window.devicePixelRatio || 1);
			const width = Math.max(150, Math.round((el.clientWidth || 600) * scale));
			const height = Math.round((el.clientHeight || 20) * scale);
			if (el.width !== width) el.width = width;
			if (el.height !== height) el.height = height;
			const draw = el.getContext("2d");
			draw.clearRect(0, 0, width, height);
			const step = width / cells;
			const shown = values.slice(-cells);
			const gap = step > 4 ? scale * 0.6 : 0;
			shown.forEach((value, index) => {
				if (value === null) return;
				draw.fillStyle = heat(value);
				draw.fillRect((cells - shown.length + index) * step, 0, step - gap, height);
			});
			const mean = shown.length ? shown.reduce((sum, of) => sum + (of ?? 0), 0) / shown.length : 0;
			const most = shown.length ? Math.max(...shown.map((of) => of ?? 0)) : 0;
			setAttr(el, "aria-label", `${label}: on average ${Math.round(mean * 100)} % busy in the last 5 minutes, at most ${Math.round(most * 100)} %`);
		},
	};
}

/** What the colours of the strips mean. */
export function heatScale() {
	const strip = h("canvas", { width: 120, height: 9, "aria-hidden": "true" });
	const draw = strip.getContext("2d");
	for (let x = 0; x < 120; x++) {
		draw.fillStyle = heat(x / 119);
		draw.fillRect(x, 0, 1, 9);
	}
	return h("div.scale", "idle", strip, "busy all the time");
}
