// Numbers as text, always in the same width of digits, with the unit beside them.

const group = new Intl.NumberFormat("en-US");

/** 4812 -> "4,812". */
export function count(value) {
	if (value === null || value === undefined || Number.isNaN(value)) return "–";
	return group.format(Math.round(value));
}

/** 123456 -> "123 k": for narrow places. */
export function short(value) {
	if (value === null || value === undefined) return "–";
	if (value < 10_000) return count(value);
	if (value < 999_500) return `${(value / 1000).toFixed(value < 99_950 ? 1 : 0)}k`;
	if (value < 999_500_000) return `${(value / 1e6).toFixed(value < 99_950_000 ? 1 : 0)}M`;
	return `${(value / 1e9).toFixed(1)}G`;
}

/** A rate by second. Small rates keep two digits; 0 stays 0. */
export function rate(value) {
	if (value === null || value === undefined || Number.isNaN(value)) return "–";
	if (value === 0) return "0/s";
	if (value < 0.01) return "<0.01/s";
	if (value < 1) return `${value.toFixed(2)}/s`;
	if (value < 1000) return `${value.toFixed(1)}/s`;
	return `${short(Math.round(value))}/s`;
}

/** Seconds as the two largest units that matter. */
export function duration(seconds) {
	if (seconds === null || seconds === undefined || Number.isNaN(seconds)) return "–";
	if (seconds < 0) return `-${duration(-seconds)}`;
	if (seconds === 0) return "0 s";
	if (seconds < 1e-6) return `${Math.max(1, Math.round(seconds * 1e9))} ns`;
	if (seconds < 1e-3) return `${digits(seconds * 1e6)} µs`;
	if (seconds < 1) return `${digits(seconds * 1e3)} ms`;
	if (seconds < 99.95) return `${seconds.toFixed(1)} s`;
	if (seconds < 5400) return two(seconds, 60, "min", 1, "s");
	if (seconds < 2 * 86400) return two(seconds, 3600, "h", 60, "min");
	return two(seconds, 86400, "d", 3600, "h");
}

/** A duration for narrow places: "15m 26s". */
export function brief(seconds) {
	const text = duration(seconds);
	return /\d .* \d|min|h$|d$/.test(text) ? text.replaceAll(/ (m)in| ([hds])/g, "$1$2") : text;
}

function digits(value) {
	return value < 9.95 ? value.toFixed(1) : String(Math.round(value));
}

function two(seconds, large, largeName, small, smallName) {
	let rest = Math.round((seconds % large) / small);
	let whole = Math.floor(seconds / large);
	if (rest * small >= large) {
		rest = 0;
		whole += 1;
	}
	return rest === 0 ? `${whole} ${largeName}` : `${whole} ${largeName} ${rest} ${smallName}`;
}

/** A time axis has round numbers: 0.004 -> "4 ms", 64 -> "64 s". */
export function tick(seconds) {
	if (seconds === 0) return "0";
	const [value, unit] =
		seconds < 1e-6 ? [seconds * 1e9, "ns"]
		: seconds < 1e-3 ? [seconds * 1e6, "µs"]
		: seconds < 0.9995 ? [seconds * 1e3, "ms"]
		: seconds < 120 ? [seconds, "s"]
		: seconds < 7200 ? [seconds / 60, "min"]
		: seconds < 172800 ? [seconds / 3600, "h"]
		: [seconds / 86400, "d"];
	return `${Number(value.toPrecision(2))} ${unit}`;
}

export function bytes(value) {
	if (value === null || value === undefined || Number.isNaN(value)) return "–";
	if (value < 1000) return `${value} B`;
	if (value < 999_500) return `${(value / 1e3).toFixed(1)} kB`;
	if (value < 999_500_000) return `${(value / 1e6).toFixed(1)} MB`;
	return `${(value / 1e9).toFixed(2)} GB`;
}

export function percent(share) {
	if (share === null || share === undefined || Number.isNaN(share)) return "–";
	if (share === 0) return "0 %";
	if (share < 0.001) return "<0.1 %";
	return `${(share * 100).toFixed(share > 0.9995 ? 0 : 1)} %`;
}

/** A wall-clock time: "11:42:07". */
export function clock(milliseconds) {
	return new Date(milliseconds).toLocaleTimeString("en-GB");
}

export function plural(value, one, many = `${one}s`) {
	return `${count(value)} ${value === 1 ? one : many}`;
}
