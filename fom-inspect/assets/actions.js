// What a user can do to the program.

import { ApiError, act, download, get, setToken, token } from "./requests.js";
import { announce, h, setText } from "./dom.js";
import { count, plural } from "./format.js";
import { state } from "./live.js";
import { href } from "./routes.js";

const ACTOR = "fom-actor";

export function actionsOn() {
	return Boolean(state.summary?.actions.enabled);
}

const OFF = "Actions are off. Inspector::actions(token) allows them; each is recorded with its reason.";

const LABELS = {
	cancel: "Cancel", wake: "Wake", next_attempt: "Next attempt now", send: "Send event…", suspend: "Suspend key", resume: "Resume key", retry: "Try again", discard: "Discard", resubmit: "Submit again", policy: "Change policy…", promote: "Promote…",
};

const TEXTS = {
	cancel: "Its phase can still clean up.",
	wake: "It runs once. A wait that is not over continues.",
	next_attempt: "It begins now instead of after its pause.",
	send: "It gets the event as if the program had sent it.",
	suspend: "No fom with this key begins until it is resumed. Foms in flight continue.",
	resume: "Foms with this key begin again.",
	retry: "It leaves the quarantine, and the program tries it again.",
	discard: "There is no way back: download it first.",
	resubmit: "It begins in the phase in which it failed.",
	policy: "Queued requests stay with the old one.",
	promote: "Its oldest request moves up.",
};

/** The buttons of a fom, or the words on how to get them. */
export function actionButtons({ fom, type, actions }, phase, onDone) {
	const box = h("div", h("h3.part", "Actions"));
	if (!actionsOn()) {
		box.append(h("div.buttons", ["Cancel", "Wake"].map((text) => h("button.button", { disabled: true }, text))), h("p.dim", OFF));
		return box;
	}
	const subject = `${fom.operation} ${fom.id}${fom.key === null ? "" : ` (key ${fom.key})`} in ${fom.phase}`;
	const bodies = {
		cancel: { action: "cancel", id: fom.id }, wake: { action: "wake", id: fom.id }, next_attempt: { action: "next_attempt", id: fom.id },
		send: { action: "send", id: fom.id, type }, suspend: { action: "suspend", type, key: fom.key }, resume: { action: "resume", type, key: fom.key },
	};
	const buttons = actions.filter((name) => bodies[name]).map((name) => button(name, bodies[name], subject, { phase, onDone }));
	box.append(buttons.length > 0 ? h("div.buttons", ...buttons) : h("p.dim", "No action applies now."));
	return box;
}

export function button(name, body, subject, more = {}) {
	return h("button", { class: `button${name === "cancel" || name === "discard" ? " danger" : ""}`, type: "button", onclick: () => ask(name, body, subject, more) }, more.label ?? LABELS[name]);
}

/** A button that saves a resource as a file. */
export function downloadButton(path, name, text = "Download") {
	return h("button.button", { type: "button", onclick: async (event) => {
		if (path.startsWith("journal") && !(await ensureToken())) return;
		download(path, name).catch((error) => setText(event.target, error.message));
	} }, text);
}

function field(label, control) {
	return h("label", label, control);
}

function open(title, ...parts) {
	const dialog = h("dialog", { "aria-label": title });
	const form = h("form", { method: "dialog", novalidate: true }, h("h1", title), ...parts);
	dialog.append(form);
	dialog.addEventListener("close", () => dialog.remove());
	document.body.append(dialog);
	dialog.showModal();
	return { dialog, form };
}

export function ensureToken(why = "This needs the token that the program gave to its inspector.") {
	if (token()) return Promise.resolve(true);
	return askToken(why);
}

let asking = null;
export function askToken(why) {
	asking ??= new Promise((done) => {
		const secret = h("input", { type: "password", autocomplete: "off", required: true, name: "token" });
		const told = h("p.result.bad", { role: "alert", hidden: true });
		let isRight = false;
		const { dialog, form } = open("Token", h("p.dim", why), field("Token", secret), told,
			h("div.buttons", h("button.button", { type: "button", onclick: () => dialog.close() }, "Not now"), h("button.button.main", { type: "submit" }, "Use it")));
		form.addEventListener("submit", async (event) => {
			event.preventDefault();
			setToken(secret.value.trim());
			try {
				const session = await get("session");
				if (!session.token) throw new ApiError(403, "token", "this is not the token");
				isRight = true;
				dialog.close();
			} catch (error) {
				setToken(null);
				told.hidden = false;
				setText(told, error.message);
				secret.select();
			}
		});
		dialog.addEventListener("close", () => {
			asking = null;
			document.dispatchEvent(new CustomEvent("fom-token"));
			done(isRight);
		});
	});
	return asking;
}

async function ask(name, body, subject, { phase, onDone = () => {} }) {
	if (!(await ensureToken())) return;
	const reason = h("input", { required: true, maxlength: 400, name: "reason", autocomplete: "off", placeholder: "why, for the record" });
	const actor = h("input", { maxlength: 100, name: "actor", autocomplete: "nickname", value: sessionStorage.getItem(ACTOR) ?? "" });
	const told = h("p.result", { role: "status", hidden: true });
	const text = { policy: "Policy, such as crr quantum=2", promote: "Client" }[name];
	const event = name === "send" || text ? h("textarea", { name: "event", spellcheck: "false", required: true }) : null;
	if (event && !text) event.value = phase?.takes[0] ? `{"${phase.takes[0]}": null}` : "null";
	const submit = h("button.button.main", { type: "submit" }, LABELS[name].replace("…", ""));
	const { dialog, form } = open(LABELS[name].replace("…", ""), h("p.mono", subject), h("p.dim", TEXTS[name]),
		event && field(text ?? `Event, as JSON${phase?.takes.length ? `; ${phase.phase} takes ${phase.takes.join(", ")}` : ""}`, event),
		field("Reason", reason), field("Your name (optional)", actor), told,
		h("div.buttons", h("button.button", { type: "button", onclick: () => dialog.close() }, "Close"), submit));
	(event ?? reason).focus();
	form.addEventListener("submit", async (submitted) => {
		submitted.preventDefault();
		const request = { ...body, reason: reason.value.trim() };
		if (actor.value.trim()) request.actor = actor.value.trim();
		sessionStorage.setItem(ACTOR, actor.value.trim());
		if (!request.reason) return tell(told, "State a reason: it is recorded with the action.", true);
		if (text) request[name === "policy" ? name : "client"] = event.value;
		else if (event) {
			try {
				request.event = JSON.parse(event.value);
			} catch (error) {
				return tell(told, `The event is not JSON: ${error.message}`, true);
			}
		}
		await send(request, told, submit, onDone);
	});
}

function tell(told, text, isBad) {
	told.hidden = false;
	told.className = isBad ? "result bad" : "result";
	setText(told, text);
}

async function send(request, told, submit, onDone) {
	submit.disabled = true;
	try {
		const result = await act(request);
		tell(told, result.text, false);
		if (result.id) told.append(" ", h("a.link", { href: href.fom(result.id) }, `Fom ${result.id}`));
		announce(result.text);
		onDone(result);
	} catch (error) {
		submit.disabled = false;
		if (error.code === "token") setToken(null);
		tell(told, error.message + (error.allowed?.length ? ` (${error.allowed.join(", ")})` : ""), true);
	}
}

/** An action on all foms of a filter, after a dry run. */
export async function askForAll(name, filter, onDone) {
	if (!(await ensureToken())) return;
	const reason = h("input", { required: true, maxlength: 400, name: "reason", autocomplete: "off" });
	const told = h("p.result", { role: "status", hidden: true });
	const submit = h("button.button.main", { type: "submit" }, "Count them");
	const title = `${LABELS[name]} all foms of the filter`;
	const { dialog, form } = open(title, h("p.dim", "A dry run first counts the foms and remembers their ids for a minute. The action then applies to those that still match."),
		field("Reason", reason), told, h("div.buttons", h("button.button", { type: "button", onclick: () => dialog.close() }, "Close"), submit));
	reason.focus();
	let dry = null;
	form.addEventListener("submit", async (event) => {
		event.preventDefault();
		if (!reason.value.trim()) return tell(told, "State a reason: it is recorded with the action.", true);
		submit.disabled = true;
		try {
			if (!dry) {
				dry = await act({ action: name, filter: asNumbers(filter), dry_run: true, reason: reason.value.trim() });
				tell(told, `${plural(dry.foms, "fom")} match${dry.foms === 1 ? "es" : ""}${dry.cut ? ", which is the most for one action; more match" : ""}.`, false);
				setText(submit, `${LABELS[name]} ${count(dry.foms)}`);
					submit.disabled = dry.foms === 0;
				return;
			}
			const result = await act({ action: name, dry_run: dry.dry_run, reason: reason.value.trim() });
			const rest = result.rest_total ?? result.rest.length;
			tell(told, `${result.text}${rest > 0 ? `; ${plural(rest, "fom")} left out: ${result.rest[0].why}` : ""}`, false);
			submit.hidden = true;
			onDone(result);
		} catch (error) {
			dry = null;
			setText(submit, "Count them");
			submit.disabled = false;
			tell(told, error.message, true);
		}
	});
}

function asNumbers(filter) {
	const typed = { ...filter };
	for (const name of ["in_phase", "age", "attempts", "locality"]) if (typed[name] !== undefined) typed[name] = Number(typed[name]);
	return typed;
}
