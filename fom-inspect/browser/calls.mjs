// Calls through a session router, as people make them: they ring for some seconds, talk for a while, and hang up.

import dgram from "node:dgram";

const header = (text, name) => new RegExp(`^${name}:\\s*(.*)$`, "im").exec(text)?.[1].trim() ?? "";
const headers = (text, name) => [...text.matchAll(new RegExp(`^${name}:.*$`, "gim"))].map(([line]) => line.trim());

function socket() {
  return new Promise((done, fail) => {
    const made = dgram.createSocket("udp4");
    made.on("error", fail);
    made.bind(0, "127.0.0.1", () => done(made));
  });
}

/** A random time around `middle`, with a long tail. */
function spread(middle, width = 0.6) {
  const normal = Math.sqrt(-2 * Math.log(1 - Math.random())) * Math.cos(2 * Math.PI * Math.random());
  return middle * Math.exp(width * normal);
}

/** A user that rings, and then answers; every `stuck`th call rings forever. Returns its address. */
async function callee(ring, stuck) {
  const us = await socket();
  const address = `127.0.0.1:${us.address().port}`;
  const known = new Map();
  let number = 0;
  us.on("message", (bytes, from) => {
    const text = bytes.toString();
    const method = text.split(" ", 1)[0];
    if (method === "SIP/2.0" || method === "ACK") return;
    const id = header(text, "Call-ID");
    const answer = (status, words) => {
      const to = headers(text, "To")[0];
      const tagged = /;tag=/.test(to) ? to : `${to};tag=e`;
      const lines = [...headers(text, "Via"), ...headers(text, "From"), tagged, ...headers(text, "Call-ID"), ...headers(text, "CSeq"), ...headers(text, "Record-Route"), `Contact: <sip:service@${address}>`, "Content-Length: 0"];
      us.send(`SIP/2.0 ${status} ${words}\r\n${lines.join("\r\n")}\r\n\r\n`, from.port, from.address);
    };
    if (method !== "INVITE") {
      known.delete(id);
      answer(200, "OK");
      return;
    }
    if (known.has(id)) return known.get(id)();
    const rings = () => answer(180, "Ringing");
    known.set(id, rings);
    rings();
    number += 1;
    if (number % stuck === 0) return;
    const isBusy = number % 40 === 7;
    setTimeout(() => {
      if (!known.has(id)) return;
      const final = isBusy ? () => answer(486, "Busy Here") : () => answer(200, "OK");
      known.set(id, final);
      final();
    }, spread(ring) * 1000);
  });
  return { address, close: () => us.close() };
}

/** Begins `rate` calls a second through the router at `port`, or one with the id `only`. Returns how to stop. */
async function caller(port, rate, talk, only) {
  const us = await socket();
  const address = `127.0.0.1:${us.address().port}`;
  const run = Math.random().toString(16).slice(2, 6);
  const live = new Map();
  let next = 0;
  const send = (method, call, cseq, tag) => {
    const branch = `${method === "BYE" ? "b" : "i"}${call.replaceAll(/\W/g, "-")}`;
    us.send([`${method} sip:service@127.0.0.1:${port} SIP/2.0`, `Via: SIP/2.0/UDP ${address};branch=z9hG4bK${run}${branch}`, `From: <sip:caller@${address}>;tag=c${call.replaceAll(/\W/g, "-")}`,
      `To: <sip:service@127.0.0.1:${port}>${tag ? `;tag=${tag}` : ""}`, `Call-ID: ${call}`, `CSeq: ${cseq} ${method}`, `Contact: <sip:caller@${address}>`, "Max-Forwards: 70", "Content-Length: 0", "", ""].join("\r\n"), port, "127.0.0.1");
  };
  us.on("message", (bytes) => {
    const text = bytes.toString();
    const status = Number(text.split(" ", 2)[1]);
    const id = header(text, "Call-ID");
    if (!live.has(id) || status < 200 || !/INVITE/.test(header(text, "CSeq"))) return;
    const tag = /;tag=([^;\s]+)/.exec(header(text, "To"))?.[1];
    send("ACK", id, 1, tag);
    if (live.get(id) === "ended") return;
    live.set(id, "ended");
    setTimeout(() => live.delete(id), 30_000).unref();
    if (status === 200) setTimeout(() => send("BYE", id, 2, tag), spread(talk, 0.9) * 1000);
  });
  if (only) {
    live.set(only, "begun");
    send("INVITE", only, 1);
    return { close: () => us.close() };
  }
  const timer = setInterval(() => {
    const id = `${run}-${(next++).toString(36).padStart(4, "0")}@pbx${next % 3}`;
    live.set(id, "begun");
    send("INVITE", id, 1);
    // Some callers give up.
    if (next % 17 === 3) setTimeout(() => live.get(id) === "begun" && send("CANCEL", id, 1), 1500);
  }, 1000 / rate);
  return { close: () => { clearInterval(timer); us.close(); } };
}

/** A user that registers again and again, so that the router has registrations. */
async function registers(port, rate) {
  const us = await socket();
  const address = `127.0.0.1:${us.address().port}`;
  let next = 0;
  const timer = setInterval(() => {
    const number = next++;
    const user = `user${number % 20}`;
    us.send([`REGISTER sip:127.0.0.1:${port} SIP/2.0`, `Via: SIP/2.0/UDP ${address};branch=z9hG4bKreg${number}`, `From: <sip:${user}@127.0.0.1>;tag=r${number}`, `To: <sip:${user}@127.0.0.1>`,
      `Call-ID: register-${number}@${address}`, `CSeq: ${number + 1} REGISTER`, `Contact: <sip:${user}@${address}>`, "Expires: 3600", "Max-Forwards: 70", "Content-Length: 0", "", ""].join("\r\n"), port, "127.0.0.1");
  }, 1000 / rate);
  return { close: () => { clearInterval(timer); us.close(); } };
}

export { callee, caller, registers };
