// Elements. Text from the program (keys, errors) only ever becomes a text node.

const SVG = "http://www.w3.org/2000/svg";

function made(element, classes, props, children) {
	if (props === null || props === undefined || props instanceof Node || typeof props !== "object" || Array.isArray(props)) {
		children.unshift(props);
		props = {};
	}
	if (classes.length > 0) element.setAttribute("class", classes.join(" "));
	for (const [name, value] of Object.entries(props)) {
		if (value === undefined || value === null || value === false) continue;
		if (name.startsWith("on")) element.addEventListener(name.slice(2), value);
		else element.setAttribute(name, value === true ? "" : String(value));
	}
	for (const child of children.flat(Infinity)) {
		if (child !== null && child !== undefined && child !== false) element.append(child instanceof Node ? child : String(child));
	}
	return element;
}

/** An HTML element: `h("a.link", { href: "/" }, "text", child)`. */
export function h(selector, props, ...children) {
	const [name, ...classes] = selector.split(".");
	return made(document.createElement(name), classes, props, children);
}

/** An SVG element. */
export function s(selector, props, ...children) {
	const [name, ...classes] = selector.split(".");
	return made(document.createElementNS(SVG, name), classes, props, children);
}

/** Sets an element's text if it differs, so that an unchanged page is not laid out again. */
export function setText(element, text) {
	text = String(text);
	if (element.textContent !== text) element.textContent = text;
}

/** Sets or removes an attribute if it differs. */
export function setAttr(element, name, value) {
	if (value === undefined || value === null || value === false) {
		if (element.hasAttribute(name)) element.removeAttribute(name);
	} else {
		value = value === true ? "" : String(value);
		if (element.getAttribute(name) !== value) element.setAttribute(name, value);
	}
}

export function setClass(element, name, on) {
	if (element.classList.contains(name) !== Boolean(on)) element.classList.toggle(name, Boolean(on));
}

/**
 * Makes `parent` show one child for each item, in their order. Children are kept by key, so focus, selection and
 * hover survive. `make(item)` returns `{ el, update(item) }`.
 */
export function keyed(parent, items, keyOf, make) {
	const known = parent.keyedChildren ?? (parent.keyedChildren = new Map());
	const wanted = new Set();
	let at = parent.firstElementChild;
	for (const item of items) {
		const key = keyOf(item);
		if (wanted.has(key)) continue;
		wanted.add(key);
		let child = known.get(key);
		if (!child) known.set(key, (child = make(item)));
		child.update?.(item);
		if (child.el === at) at = at.nextElementSibling;
		else parent.insertBefore(child.el, at);
	}
	for (const [key, child] of known) {
		if (wanted.has(key)) continue;
		child.el.remove();
		known.delete(key);
	}
}

/** Whether the user reads or points at this element now: its order must then not change. */
export function isRead(element) {
	if (element.contains(document.activeElement) && document.activeElement !== document.body) return true;
	if (matchMedia("(hover: hover)").matches && element.matches(":hover")) return true;
	const selection = document.getSelection();
	return Boolean(selection && !selection.isCollapsed && element.contains(selection.anchorNode));
}

/** Says something to a screen reader, at most once in 3 s, and only what differs. */
let said = "";
let saidAt = 0;
export function announce(text) {
	const now = Date.now();
	if (text === said || now - saidAt < 3000) return;
	said = text;
	saidAt = now;
	setText(document.getElementById("announcer"), text);
}

/** The first paragraph of a doc comment, on one line. */
export function brief(docs) {
	return docs?.split("\n\n")[0].replaceAll("\n", " ").replaceAll("`", "") ?? "";
}

export function card(title, note, ...children) {
	const heading = h("h2", h("span", title));
	const aside = h("span.note", note ?? "");
	heading.append(" ", aside);
	const body = h("section.card", { "aria-label": title }, heading, ...children);
	return { el: body, heading, title: heading.firstElementChild, note: aside };
}

/**
 * A table that changes: its columns are `[head, class, content(item), isLive]`, and only live ones change in a row. While
 * the user reads the table, no row comes, goes or moves. `nothing` stands for an empty table.
 */
export function table(label, columns, keyOf, nothing = "", mark = () => {}) {
	const body = h("tbody");
	const none = nothing ? h("p.empty", { hidden: true }, nothing) : null;
	const box = h("div.scroll-x", { hidden: true }, h("table", { "aria-label": label }, h("thead", h("tr", columns.map(([head, name]) => h("th", { scope: "col", class: name }, head)))), body));
	const el = h("div", box, none);
	const make = (item) => {
		const cells = columns.map(([, name, content, isLive]) => h("td", { class: name }, isLive ? null : content(item)));
		for (const cell of cells) if (cell.textContent.length > 24) cell.title = cell.textContent;
		const row = h("tr", ...cells);
		return {
			el: row,
			update(now) {
				columns.forEach(([, , content, isLive], index) => isLive && setText(cells[index], content(now)));
				mark(row, now, cells);
			},
		};
	};
	return {
		el,
		show(items) {
			if (isRead(body) && items.length > 0) {
				for (const item of items) body.keyedChildren?.get(keyOf(item))?.update(item);
				return;
			}
			keyed(body, items, keyOf, make);
			box.hidden = items.length === 0;
			if (none) none.hidden = !box.hidden;
		},
	};
}

/** A description list whose values can change: `facts.set("locks", "none")`. */
export function facts() {
	const el = h("dl.facts");
	const rows = new Map();
	return {
		el,
		set(name, value, className) {
			let row = rows.get(name);
			if (!row) {
				row = h("dd");
				rows.set(name, row);
				el.append(h("dt", name), row);
			}
			if (value instanceof Node) row.replaceChildren(value);
			else setText(row, value);
			row.className = className ?? "";
		},
	};
}
