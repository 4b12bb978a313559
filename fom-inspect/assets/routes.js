// Each view has a URL below /view/.

const part = encodeURIComponent;

export const href = {
	overview: () => "/",
	machine: (type, phase, fom) => `/view/machines/${part(type)}${phase ? `/${part(phase)}` : ""}${fom ? `?fom=${fom}` : ""}`,
	fom: (id) => `/view/foms/${id}`,
	foms: (filter = {}) => {
		const query = new URLSearchParams(Object.entries(filter).filter(([, value]) => value !== "" && value !== null && value !== undefined)).toString();
		return `/view/foms${query ? `?${query}` : ""}`;
	},
	view: (name) => `/view/${name}`,
};

/** The parts of a path and its query: `/view/machines/Call` -> `["machines", "Call"]`. */
export function parse(location) {
	const path = location.pathname.replace(/^\/view\/?/, "/").split("/").filter(Boolean);
	let parts;
	try {
		parts = path.map(decodeURIComponent);
	} catch {
		parts = ["unknown"];
	}
	return { parts, query: new URLSearchParams(location.search) };
}

let navigated;

/** Goes to another view, as a link does. */
export function go(url) {
	history.pushState(null, "", url);
	navigated();
}

export function onNavigate(on) {
	navigated = on;
	addEventListener("popstate", () => on());
	document.addEventListener("click", (event) => {
		if (event.defaultPrevented || event.button !== 0 || event.metaKey || event.ctrlKey || event.shiftKey || event.altKey) return;
		const link = event.target.closest?.("a[href]");
		if (!link || link.hasAttribute("download") || link.getAttribute("target")) return;
		const url = new URL(link.getAttribute("href"), location.href);
		if (url.origin !== location.origin || url.pathname.startsWith("/api")) return;
		if (url.hash && url.pathname === location.pathname && url.search === location.search) return;
		event.preventDefault();
		if (url.href !== location.href) go(url.href);
	});
}
