// SPDX-License-Identifier: Apache-2.0
// The page at /: a chat over the server's own OpenAI API, and the state of the cluster from
// /cluster. Text from models and servers is shown as text, never as HTML.
"use strict";

const $ = (id) => document.getElementById(id);

function element(tag, className, text) {
  const made = document.createElement(tag);
  if (className) made.className = className;
  if (text !== undefined) made.textContent = text;
  return made;
}

function headers() {
  const key = $("key").value;
  return key ? { Authorization: "Bearer " + key } : {};
}

function askForKey() {
  $("settings").open = true;
  $("key").focus();
}

// The error in words for the user. fetch() and a broken stream throw a TypeError.
function messageOf(problem) {
  const silent = problem instanceof TypeError || problem.name === "TimeoutError";
  return silent ? "the server does not answer" : problem.message;
}

// ---- Chat ----

const turns = []; // {role, content}
let running = null; // The AbortController of the answer that is being written.
let model; // The server's model name. Undefined until it arrives: requests leave it out.

function show(role, text) {
  const item = element("li", role, text);
  $("messages").append(item);
  scrollDown();
  return item;
}

function scrollDown() {
  const list = $("messages");
  list.scrollTop = list.scrollHeight;
}

function number(id) {
  const value = $(id).value;
  return value === "" ? undefined : Number(value);
}

function requestBody() {
  const body = {
    model: model,
    stream: true,
    stream_options: { include_usage: true },
    temperature: number("temperature"),
    top_p: number("top_p"),
    max_tokens: number("max_tokens"),
    seed: number("seed"),
  };
  if ($("mode").value === "text") {
    body.prompt = turns.map((turn) => turn.content).join("");
  } else {
    const system = $("system").value;
    body.messages = system ? [{ role: "system", content: system }, ...turns] : turns;
  }
  return JSON.stringify(body);
}

// Calls `take` with the data of each event in a stream of server-sent events.
async function readEvents(response, take) {
  const reader = response.body.pipeThrough(new TextDecoderStream()).getReader();
  let rest = "";
  for (;;) {
    const { value, done } = await reader.read();
    if (done) return;
    const events = (rest + value).split(/\r?\n\r?\n/);
    rest = events.pop();
    for (const event of events) {
      const data = event.split(/\r?\n/).filter((line) => line.startsWith("data:"));
      if (data.length) take(data.map((line) => line.slice(5).trimStart()).join("\n"));
    }
  }
}

async function errorOf(response) {
  if (response.status === 401) return "enter this server's API key";
  const body = await response.text();
  try {
    return JSON.parse(body).error.message;
  } catch (unreadable) {
    return "HTTP " + response.status;
  }
}

class Answer {
  constructor() {
    this.item = show("assistant", "");
    this.thought = null;
    this.text = document.createTextNode("");
    this.item.append(this.text);
    this.content = ""; // The model's text; shown without its leading white space.
    this.cut = false;
    this.began = performance.now();
    this.first = 0;
    this.usage = null;
  }

  take(data) {
    if (data === "[DONE]") return;
    const chunk = JSON.parse(data);
    if (chunk.error) throw new Error(chunk.error.message);
    if (chunk.usage) this.usage = chunk.usage;
    const choice = (chunk.choices || [])[0];
    if (!choice) return;
    if (choice.finish_reason === "length") this.cut = true;
    const delta = choice.delta || {};
    if (delta.reasoning_content) this.think(delta.reasoning_content);
    this.write(delta.content || choice.text || "");
    for (const call of delta.tool_calls || []) {
      this.write((call.function.name || "") + (call.function.arguments || ""));
    }
  }

  think(text) {
    if (!this.thought) {
      this.thought = element("span", "thought");
      this.item.prepend(this.thought);
    }
    this.thought.textContent += this.thought.textContent ? text : text.trimStart();
    this.note();
  }

  write(text) {
    if (!text) return;
    this.content += text;
    this.text.data += this.text.data ? text : text.trimStart();
    this.note();
  }

  note() {
    if (!this.first) this.first = performance.now();
    scrollDown();
  }

  // Adds the text to the conversation, and shows whether the answer was cut off.
  end() {
    if (this.text.data) turns.push({ role: "assistant", content: this.content });
    if (!this.text.data && !this.thought) this.item.remove();
    if (!this.cut) return;
    const used = this.usage ? this.usage.prompt_tokens + this.usage.completion_tokens : 0;
    const full = before && used >= before.state.context_length;
    const why = full ? "cut: the context is full" : "cut at max tokens";
    this.item.append(element("span", "cut", why));
    scrollDown();
  }

  figures() {
    if (!this.usage || !this.first) return "";
    const seconds = (performance.now() - this.first) / 1000;
    const rate = seconds > 0 ? (this.usage.completion_tokens - 1) / seconds : 0;
    return `${this.usage.prompt_tokens} + ${this.usage.completion_tokens} tokens, first after ` +
      `${Math.round(this.first - this.began)} ms, then ${rate.toFixed(1)} tokens/s`;
  }
}

function setRunning(controller) {
  running = controller;
  $("send").disabled = controller !== null;
  $("stop").disabled = controller === null;
  $("again").disabled = controller !== null || turns.length === 0;
}

async function answerLast() {
  const answer = new Answer();
  const mine = new AbortController();
  setRunning(mine);
  $("figures").textContent = "";
  try {
    const path = $("mode").value === "text" ? "/v1/completions" : "/v1/chat/completions";
    const response = await fetch(path, {
      method: "POST",
      headers: { "Content-Type": "application/json", ...headers() },
      body: requestBody(),
      signal: mine.signal,
    });
    if (response.status === 401) askForKey();
    if (!response.ok) throw new Error(await errorOf(response));
    await readEvents(response, (data) => answer.take(data));
  } catch (problem) {
    if (problem.name !== "AbortError" && running === mine) show("error", messageOf(problem));
  }
  if (running !== mine) return; // The conversation was cleared.
  answer.end();
  $("figures").textContent = answer.figures();
  setRunning(null);
  if (document.activeElement !== $("key")) $("prompt").focus();
}

function send() {
  const text = $("prompt").value;
  if (!text.trim() || running) return;
  $("prompt").value = "";
  turns.push({ role: "user", content: text });
  show("user", text);
  answerLast();
}

function again() {
  if (running || !turns.length) return;
  if (turns[turns.length - 1].role === "assistant") turns.pop();
  const list = $("messages");
  while (!list.lastElementChild.matches(".user")) list.lastElementChild.remove();
  answerLast();
}

function clearChat() {
  if (running) running.abort();
  turns.length = 0;
  $("messages").replaceChildren();
  $("figures").textContent = "";
  setRunning(null);
  $("prompt").focus();
}

function showHint() {
  const what = $("mode").value === "text" ?
    'Begin a text, such as "Once upon a time": the model continues it.' :
    'Ask something, or begin a story: "Once upon a time".';
  $("prompt").placeholder = what + " Enter sends it, Shift+Enter begins a new line.";
}

$("ask").addEventListener("submit", (event) => {
  event.preventDefault();
  send();
});
$("prompt").addEventListener("keydown", (event) => {
  if (event.key !== "Enter" || event.shiftKey || event.isComposing) return;
  event.preventDefault();
  send();
});
document.addEventListener("keydown", (event) => {
  if (event.key === "Escape" && running) running.abort();
});
$("stop").addEventListener("click", () => running && running.abort());
$("again").addEventListener("click", again);
$("clear").addEventListener("click", clearChat);
$("mode").addEventListener("change", showHint);
$("theme").addEventListener("click", () => {
  const dark = matchMedia("(prefers-color-scheme: dark)").matches;
  const now = document.documentElement.dataset.theme || (dark ? "dark" : "light");
  document.documentElement.dataset.theme = now === "dark" ? "light" : "dark";
});

// ---- Cluster ----

const kParts = ["compute", "wait", "transfer"];
const kPatienceMs = 5000;
let before = null; // The last state of /cluster and its time, to show the changes since then.
let askedForKey = false; // The key's field got the focus: later polls leave the focus.

function counted(count, noun) {
  return `${count} ${noun}${count === 1 ? "" : "s"}`;
}

function bytes(count) {
  const units = ["B", "KiB", "MiB", "GiB", "TiB"];
  let unit = 0;
  for (; count >= 1024 && unit + 1 < units.length; ++unit) count /= 1024;
  return `${count.toFixed(unit ? 1 : 0)} ${units[unit]}`;
}

// A bar of parts [[class, share], ...]; a share of 1 is the whole bar.
function bar(shares) {
  const made = element("div", "bar");
  for (const [name, share] of shares) {
    const part = element("span", name);
    part.style.width = `${100 * Math.min(1, Math.max(0, share))}%`;
    made.append(part);
  }
  return made;
}

function row(left, right, shares) {
  const made = element("div", "row");
  const line = element("p");
  line.append(element("span", "", left), element("span", "quiet", right));
  made.append(line, bar(shares));
  return made;
}

function showFacts(state, rate) {
  const facts = [
    ["tokens per second", rate.toFixed(1)],
    ["running, waiting", `${state.running}, ${state.waiting}`],
    ["tokens generated", state.generation_tokens],
    ["steps", state.steps],
    ["preemptions", state.preemptions],
    ["context", `${state.context_length} tokens`],
    ["numeric class", state.numeric_class],
    ["strategy", state.strategy],
    ["group", `number ${state.epoch}, ${counted(state.ranks.length, "rank")}`],
  ];
  $("facts").replaceChildren(...facts.flatMap(([name, value]) => [
    element("dt", "", name), element("dd", "", String(value))]));
}

function showPages(pages) {
  const used = pages.total ? (pages.total - pages.free) / pages.total : 0;
  const text = `${pages.total - pages.free} of ${pages.total}, ${pages.tokens} tokens each`;
  $("pages").replaceChildren(...row("", text, [["compute", used]]).children);
  $("pages").className = "row";
  $("pages").setAttribute("aria-label", text);
}

// The rank's shares of the steps' time since the state `past`; of the time of all steps if `past`
// is null.
function sharesOf(rank, past, stepNs) {
  return kParts.map((part) => [part, (rank[part + "_ns"] - (past ? past[part + "_ns"] : 0)) /
    stepNs]);
}

function showRanks(state, past) {
  let stepNs = state.step_ns - (past ? past.step_ns : 0);
  if (stepNs <= 0) {
    past = null;
    stepNs = Math.max(1, state.step_ns);
  }
  const ranks = state.ranks.map((rank, index) => {
    const shares = sharesOf(rank, past && past.ranks[index], stepNs);
    const text = `${rank.device}, ${rank.isa}, pid ${rank.pid}, ${bytes(rank.weight_bytes)}`;
    return row(`rank ${rank.rank}`, text, shares);
  });
  const spares = state.spares.map((spare) => {
    const held = spare.holds === null ? "holds no rank's weights" :
      `holds rank ${spare.holds}, ${bytes(spare.weight_bytes)}`;
    return row(spare.role, `${spare.device}, ${spare.isa}, pid ${spare.pid}, ${held}`, []);
  });
  $("ranks").replaceChildren(...ranks, ...spares);
  const parts = state.coordinator_ns;
  const old = past ? past.coordinator_ns : null;
  const since = (name) => parts[name] - (old ? old[name] : 0);
  const all = Math.max(1, Object.keys(parts).reduce((sum, name) => sum + since(name), 0));
  $("coordinator").replaceChildren(...["decide", "send", "tell", "wait", "idle"].map((name) =>
    row(name, `${(100 * since(name) / all).toFixed(1)} %`, [["other", since(name) / all]])));
}

function setStatus(text, className) {
  $("status").textContent = text;
  $("status").className = "badge " + className;
}

async function poll() {
  try {
    const signal = AbortSignal.timeout(kPatienceMs);
    const response = await fetch("/cluster", { headers: headers(), cache: "no-store", signal });
    if (response.status === 401 && !askedForKey) askForKey();
    askedForKey = response.status === 401;
    if (!response.ok) throw new Error(await errorOf(response));
    const state = await response.json();
    const now = performance.now();
    const past = before && before.state.epoch === state.epoch ? before.state : null;
    const rate = past ? 1000 * (state.generation_tokens - past.generation_tokens) /
      (now - before.at) : 0;
    model = state.model;
    $("model").textContent = state.model;
    setStatus(state.ready ? "ready" : "not ready", state.ready ? "ready" : "down");
    showFacts(state, rate);
    showPages(state.pages);
    showRanks(state, past);
    before = { state: state, at: now };
  } catch (problem) {
    before = null;
    setStatus(messageOf(problem), "down");
  }
  $("cluster").className = before ? "" : "stale";
  setTimeout(poll, 1000);
}

for (const part of kParts) $("legend").append(element("span", part, part));
$("legend").append(element("span", "rest", "network, coordinator"));
showHint();
setRunning(null);
poll();
