// The inspector's page in a real browser, against the session router under calls, and against the example that hangs.
//
// node page.mjs ROUTER STUCK [PICTURES]: the programs, and the folder for the book's pictures.

import assert from "node:assert/strict";
import { spawn } from "node:child_process";
import fs from "node:fs";
import os from "node:os";
import path from "node:path";
import { chromium } from "playwright-core";
import { callee, caller, registers } from "./calls.mjs";

const [program, stuck, pictures] = process.argv.slice(2);
const TOKEN = "the-token-of-the-browser-run";
const CHROMIUM = process.env.FOM_CHROMIUM ?? "/usr/bin/chromium";
const FLAGS = ["--headless", "--no-sandbox", "--disable-gpu", "--disable-background-networking", "--disable-component-update", "--disable-sync", "--no-first-run", "--host-resolver-rules=MAP elsewhere.example 127.0.0.1"];
const WAIT = 30_000;
const work = fs.mkdtempSync(path.join(os.tmpdir(), "fom-browser-"));
const closers = [];

/** Starts a program, and returns what `found` finds in its output. */
async function start(what, program, args, found) {
  const child = spawn(program, args, { env: { ...process.env, FOM_INSPECT_TOKEN: TOKEN } });
  closers.push(() => child.kill("SIGKILL"));
  let said = "";
  child.stdout.on("data", (bytes) => (said += bytes));
  child.stderr.on("data", (bytes) => (said += bytes));
  return until(what, () => {
    assert.equal(child.exitCode, null, said);
    return found(said);
  });
}

/** Starts the router, and returns its port and the URL of its page. */
function router(endpoint) {
  const args = ["serve", "--listen", "127.0.0.1:0", "--endpoint", `service=${endpoint}`, "--journal", path.join(work, "journal"), "--t1", "200", "--drain", "0", "--inspect", "127.0.0.1:0"];
  return start("the router starts", program, args, (said) => {
    const [port, url] = [/router on [^,]*:(\d+)/.exec(said)?.[1], /inspector at (\S+)/.exec(said)?.[1]];
    return port && url ? { port: Number(port), url } : null;
  });
}

async function until(what, check, limit = WAIT) {
  const end = Date.now() + limit;
  for (;;) {
    const found = await check();
    if (found) return found;
    if (Date.now() > end) throw new Error(`not within ${limit / 1000} s: ${what}`);
    await new Promise((done) => setTimeout(done, 100));
  }
}

const errors = [];
const hosts = new Set();

async function open(context) {
  const page = await context.newPage();
  page.setDefaultTimeout(WAIT);
  page.on("console", (message) => message.type() === "error" && errors.push(`${message.text()} (${message.location().url})`));
  page.on("pageerror", (error) => errors.push(String(error)));
  page.on("request", (request) => hosts.add(new URL(request.url()).host));
  return page;
}

const at = (url, where) => new URL(where, url).href;
const text = (page, selector) => page.locator(selector).first().textContent();

let passed = 0;
const failed = [];
async function test(name, body) {
  const before = errors.length;
  try {
    await body();
    assert.deepEqual(errors.slice(before), [], "the console shows errors");
    console.log(`test ${name} ... ok`);
    passed += 1;
  } catch (error) {
    failed.push(name);
    console.log(`test ${name} ... FAILED\n${error.stack}`);
  }
}

const VIEWS = ["/", "/view/machines/Call", "/view/foms", "/view/waits", "/view/localities", "/view/journal", "/view/warnings", "/view/failures"];

async function tests(url, context) {
  const page = await open(context);

  await test("the counts of the overview and of a machine move", async () => {
    await page.goto(url);
    await page.locator(".tile", { hasText: "Call" }).first().waitFor();
    const before = await text(page, ".totals");
    await until("a count of the overview changes", async () => (await text(page, ".totals")) !== before);
    await page.locator(".tile").filter({ has: page.locator("h3", { hasText: /^Call/ }) }).click();
    const ended = () => text(page, ".n[data-phase=Completed] .count");
    await page.locator(".n[data-phase=Completed]").waitFor();
    const first = await ended();
    await until("calls end in the diagram", async () => (await ended()) !== first);
    await until("edges show rates", async () => (await page.locator(".diagram .rate").allTextContents()).some((rate) => /[1-9].*\/s/.test(rate)));
    assert.match(page.url(), /\/view\/machines\/Call$/);
  });

  await test("a click on a phase shows its times, exits and foms, and a click on a fom what it waits for", async () => {
    await page.goto(at(url, "/view/machines/Call"));
    await page.locator(".n[data-phase=Ring]").click();
    const panel = page.locator(".phase-panel");
    await panel.locator("h2", { hasText: "Ring" }).waitFor();
    assert.match(page.url(), /\/view\/machines\/Call\/Ring$/);
    await panel.locator(".hist .b").first().waitFor();
    await panel.getByRole("link", { name: "Talk" }).waitFor();
    const key = panel.locator("table[aria-label='Oldest foms'] a").first();
    const name = await key.textContent();
    await key.click();
    assert.match(page.url(), /\?fom=\d+$/);
    const fom = page.locator(".fombox");
    await fom.locator(".key", { hasText: name }).waitFor();
    await fom.locator(".wait", { hasText: "an event" }).waitFor();
    await fom.locator(".tl .p").first().waitFor();
  });

  await test("a list that the user points at keeps its order", async () => {
    await page.goto(at(url, "/view/machines/Call/Talk"));
    const rows = page.locator("table[aria-label='Oldest foms'] tbody tr");
    await rows.nth(4).waitFor();
    await rows.nth(2).hover();
    const keys = () => page.locator("table[aria-label='Oldest foms'] tbody td:first-child").allTextContents();
    const top = async () => (await rows.nth(2).boundingBox()).y;
    const [before, place] = [await keys(), await top()];
    const ended = await text(page, ".n[data-phase=Completed] .count");
    await until("calls end meanwhile", async () => (await text(page, ".n[data-phase=Completed] .count")) !== ended);
    await page.waitForResponse((answer) => /foms\?.*phase=Talk/.test(answer.url()));
    await page.waitForResponse((answer) => /foms\?.*phase=Talk/.test(answer.url()));
    assert.deepEqual(await keys(), before);
    assert.equal(await top(), place);
    await page.mouse.move(0, 0);
  });

  await test("`/` finds a key from anywhere, by the keyboard alone", async () => {
    await page.goto(at(url, "/view/localities"));
    await page.locator(".strips canvas").first().waitFor();
    const { page: foms } = await page.evaluate(() => fetch("/api/v1/foms?type=Call&phase=Ring&limit=1").then((answer) => answer.json()));
    await page.keyboard.press("/");
    await page.keyboard.type(foms[0].key);
    await page.locator("#found a", { hasText: foms[0].key }).waitFor();
    await page.keyboard.press("Enter");
    await page.waitForURL(/\/view\/foms\/\d+$/);
    await page.locator(".fomhead .key", { hasText: foms[0].key }).waitFor();
  });

  await test("a key is text and never markup", async () => {
    const key = "<img/src=x>@markup";
    await page.goto(at(url, `/view/foms?key=${encodeURIComponent(key)}`));
    await page.locator(".vrow .key", { hasText: key }).waitFor();
    await page.locator(".vrow").first().click();
    await page.locator(".fomhead .key", { hasText: key }).waitFor();
    assert.equal(await page.locator("img[src='x']").count(), 0);
  });

  await test("each view has its URL and fits into 380 pixels, in both color schemes", async () => {
    for (const [width, colorScheme] of [[1280, "light"], [380, "dark"], [1280, "dark"], [380, "light"]]) {
      await page.setViewportSize({ width, height: 900 });
      await page.emulateMedia({ colorScheme });
      for (const view of VIEWS) {
        await page.goto(at(url, view));
        await page.locator("main .card, main .tile").first().waitFor();
        await page.locator(".live.live").waitFor();
        const excess = await page.evaluate(() => document.documentElement.scrollWidth - innerWidth);
        assert.ok(excess <= 0, `${view} is ${excess} pixels wider than ${width}`);
        const nameless = await page.evaluate(() => [...document.querySelectorAll("a, button, input, canvas, svg[role]")].filter((of) => of.checkVisibility() && !of.closest("[aria-hidden=true]") && !(of.getAttribute("aria-label") || of.textContent.trim() || of.title || of.labels?.length)).map((of) => of.outerHTML));
        assert.deepEqual(nameless, [], `parts of ${view} have no name`);
      }
    }
    await page.setViewportSize({ width: 1280, height: 900 });
    await page.emulateMedia({ colorScheme: null });
  });

  await test("a view that the program does not have says so", async () => {
    const before = errors.length;
    const error = { status: 404, code: "unavailable", message: "the program lists no service" };
    await page.route("**/api/v1/summary", async (route) => {
      const summary = await (await route.fetch()).json();
      summary.resources = summary.resources.filter((name) => name !== "services");
      await route.fulfill({ json: summary });
    });
    await page.route("**/api/v1/services", (route) => route.fulfill({ status: 404, json: { error } }));
    await page.goto(at(url, "/view/services"));
    await page.locator(".absent", { hasText: "not available in this program" }).waitFor();
    assert.equal(await page.locator("#nav a", { hasText: "Services" }).count(), 0);
    await page.unrouteAll({ behavior: "wait" });
    // The browser reports the answer 404 by itself.
    errors.splice(before, errors.length, ...errors.slice(before).filter((error) => !/404/.test(error)));
  });

  await test("no stream is open while the tab is hidden", async () => {
    await page.goto(url);
    await page.locator(".live.live").waitFor();
    const hide = (on) => page.evaluate((hidden) => {
      Object.defineProperty(document, "hidden", { configurable: true, get: () => hidden });
      document.dispatchEvent(new Event("visibilitychange"));
    }, on);
    const closed = page.waitForEvent("requestfailed", (request) => request.url().includes("/stream"));
    await hide(true);
    await closed;
    await page.locator(".live.paused").waitFor();
    await hide(false);
    await page.locator(".live.live").waitFor();
  });

  await test("an action is refused without the token, and works with it", async () => {
    const before = errors.length;
    const { page: foms } = await page.evaluate(() => fetch("/api/v1/foms?type=Call&phase=Ring&limit=1").then((answer) => answer.json()));
    const [{ id }] = foms;
    const body = { action: "cancel", id, reason: "the browser run" };
    const post = (headers) => page.evaluate(([body, headers]) => fetch("/api/v1/actions", { method: "POST", headers: { "Content-Type": "application/json", ...headers }, body: JSON.stringify(body) }).then(async (answer) => [answer.status, (await answer.json()).error?.code]), [body, headers]);
    assert.deepEqual(await post({}), [403, "token"]);
    assert.deepEqual(await post({ Authorization: "Bearer this-is-another-token" }), [403, "token"]);
    await page.goto(at(url, `/view/foms/${id}`));
    await page.getByRole("button", { name: "Cancel" }).click();
    const dialog = page.locator("dialog");
    await dialog.locator("input[name=token]").fill("this-is-another-token");
    await dialog.getByRole("button", { name: "Use it" }).click();
    await dialog.getByRole("alert").waitFor();
    await dialog.locator("input[name=token]").fill(TOKEN);
    await dialog.getByRole("button", { name: "Use it" }).click();
    await dialog.locator("input[name=reason]").fill("the browser run");
    await dialog.getByRole("button", { name: "Cancel" }).click();
    await dialog.locator(".result", { hasText: `${id}` }).waitFor();
    await dialog.getByRole("button", { name: "Close" }).click();
    await page.goto(at(url, "/view/warnings"));
    await page.locator("td", { hasText: "the browser run" }).first().waitFor();
    assert.ok(!page.url().includes(TOKEN));
    errors.splice(before, errors.length, ...errors.slice(before).filter((error) => !/40[34]/.test(error)));
  });

  await test("a token in the fragment is kept, and leaves the URL", async () => {
    await page.evaluate(() => sessionStorage.clear());
    await page.goto(at(url, `/view/waits#token=${TOKEN}`));
    await page.getByRole("button", { name: "actions on" }).waitFor();
    assert.ok(!page.url().includes("token"));
  });

  await test("a foreign host name gets 403", async () => {
    const { port } = new URL(url);
    const before = errors.length;
    const other = await context.newPage();
    const answer = await other.goto(`http://elsewhere.example:${port}/`);
    assert.equal(answer.status(), 403);
    const api = await other.goto(`http://elsewhere.example:${port}/api/v1/summary`);
    assert.equal(api.status(), 403);
    await other.close();
    errors.length = before;
  });

  await test("the page asks no other host", async () => {
    assert.deepEqual([...hosts], [new URL(url).host]);
  });
  await page.close();
}

/** What the page says of each operation that hangs: the phase, the text of the warning, and what the fom waits for. */
const CULPRITS = [
  ["Wait", "1 fom has been in Wait of Visit", "an event"],
  ["Arrive", "1 fom has been in Arrive of Visit", "its key"],
  ["Enter", "2 foms wait for each other", "the lock"],
  ["Call", "1 fom has been in Call of Visit", "the line is engaged"],
  ["Read", "1 fom has been in Read of Visit", "a blocking call"],
  ["Count", "has run for", "running"],
];

async function stuckTests(url, context) {
  hosts.clear();
  const page = await open(context);

  await test("each operation that hangs is named, and its page says for what", async () => {
    for (const [phase, warned, reason] of CULPRITS) {
      await page.goto(at(url, "/view/warnings"));
      const warning = page.locator(".warning", { hasText: warned }).first();
      await warning.locator("a.num").first().click();
      await page.waitForURL(/\/view\/foms\/\d+$/);
      await page.locator(".fomhead", { hasText: phase }).waitFor();
      await page.locator("main", { hasText: reason }).first().waitFor();
    }
    await page.goto(at(url, "/view/warnings"));
    await page.locator(".warning", { hasText: "Payment in Charge is in quarantine" }).waitFor();
    await page.goto(at(url, "/view/journal"));
    await page.locator("td", { hasText: "the bank refuses 500 cents" }).waitFor();
  });

  await test("a fom links to the holder of its key", async () => {
    await page.goto(at(url, "/view/machines/Visit/Arrive"));
    await page.locator("table[aria-label='Oldest foms'] a").first().click();
    const wait = page.locator(".fombox .wait", { hasText: "its key" });
    await wait.locator("a").first().click();
    await page.locator(".fombox .wait, main .wait", { hasText: "an event" }).first().waitFor();
  });

  await test("a cycle of waits is drawn as one", async () => {
    await page.goto(at(url, "/view/waits"));
    await page.locator("path.cycle").first().waitFor({ state: "attached" });
    assert.ok((await page.locator("path.cycle").count()) >= 2);
    await page.getByText("1 cycle").first().waitFor();
  });

  await test("this page asks no other host", async () => {
    assert.deepEqual([...hosts], [new URL(url).host]);
  });
  await page.close();
}

const PICTURES = [
  ["overview", "/", "dark", 1280, 610], ["machine", "/view/machines/Call/Ring", "dark", 1280],
  ["narrow", "/view/machines/Call", "light", 380, 1100],
];

async function draw(url, context, into) {
  const page = await open(context);
  fs.mkdirSync(into, { recursive: true });
  for (const [name, view, colorScheme, width, height = 900] of PICTURES) {
    await page.emulateMedia({ colorScheme });
    await page.setViewportSize({ width, height });
    let where = at(url, view);
    if (name.startsWith("machine")) {
      const { page: foms } = await page.evaluate((from) => fetch(from).then((answer) => answer.json()), "/api/v1/foms?type=Call&phase=Ring&limit=1").catch(() => ({ page: [] }));
      if (foms[0]) where += `?fom=${foms[0].id}`;
    }
    await page.goto(where);
    await page.locator(".live.live").waitFor();
    await page.locator("main .card canvas, .phase-panel, .column").first().waitFor();
    // The first rates and surveys.
    await page.waitForTimeout(5000);
    const file = path.join(into, `inspector-${name}.png`);
    await page.screenshot({ path: file, animations: "disabled" });
    const { size } = fs.statSync(file);
    console.log(`picture ${file}: ${size} bytes`);
    await test(`the picture ${name} is below 200 KB`, async () => assert.ok(size < 200_000, `${size} bytes`));
  }
  await page.close();
}

try {
  const service = await callee(2.2, 40);
  closers.push(() => service.close());
  const { port, url } = await router(service.address);
  for (const load of [await caller(port, 25, 12), await registers(port, 6)]) closers.push(() => load.close());
  const odd = await caller(port, 1, 600, "<img/src=x>@markup");
  closers.push(() => odd.close());
  const context = await chromium.launchPersistentContext(path.join(work, "profile"), { executablePath: CHROMIUM, headless: true, args: FLAGS });
  closers.push(() => context.close());
  // Some calls ring and talk, and some hang.
  await new Promise((done) => setTimeout(done, pictures ? 30_000 : 8000));
  if (pictures) await draw(url, context, pictures);
  await tests(url, context);
  const hung = await start("the example hangs", stuck, ["--inspect", "127.0.0.1:0"], (said) => /inspector at (\S+)/.exec(said)?.[1]);
  await stuckTests(hung, context);
} catch (error) {
  failed.push("the run");
  console.log(error.stack);
} finally {
  for (const close of closers.reverse()) await close();
  fs.rmSync(work, { recursive: true, force: true });
}
console.log(`\ntest result: ${failed.length ? "FAILED" : "ok"}. ${passed} passed; ${failed.length} failed; 0 ignored`);
process.exit(failed.length ? 1 : 0);
