// SPDX-License-Identifier: Apache-2.0
// The page of `lockstep inspect --html`: shows the embedded program. The operators of a layer are
// created when it is first opened, so that a page of 80 layers appears at once.
"use strict";

const $ = (id) => document.getElementById(id);
const program = JSON.parse($("program").textContent);

// The positions in the lists that program_json.cc writes.
const NAME = 0;
const GROUP = { name: 0, first: 1, end: 2 };
const VALUE = { dtype: 1, rows: 2, cols: 3, layout: 4, memory: 5 };
const WEIGHT = { role: 1, dtype: 2, rows: 3, cols: 4, matrices: 5, bytes: 6, pieces: 7,
  paired: 8 };
const PIECE = { source: 0, shape: 1, rowBegin: 2, rowEnd: 3, colBegin: 4, colEnd: 5, done: 6,
  tensors: 7 };
const CALL = { op: 0, made: 1, read: 2, weights: 3, attributes: 4, state: 5, costs: 6 };

const makers = []; // For each value: the instruction that makes it.
const readers = program.values.map(() => []);
program.instructions.forEach((call, index) => {
  for (const value of call[CALL.made]) makers[value] = index;
  for (const value of call[CALL.read]) readers[value].push(index);
});

let step = 0; // The step whose costs are shown.
const layers = []; // {element, first, end, rows: null until it was opened}
const detail = element("section");
detail.id = "detail";
let chosen = null; // The row whose detail is shown.

function element(tag, className, text) {
  const made = document.createElement(tag);
  if (className) made.className = className;
  if (text !== undefined) made.textContent = text;
  return made;
}

function scaled(number, units) {
  let unit = 0;
  while (number >= 999.5 && unit + 1 < units.length) {
    number /= 1000;
    unit += 1;
  }
  return (unit === 0 || number >= 99.5 ? Math.round(number) : number.toPrecision(3)) + " " +
    units[unit];
}
const bytesText = (bytes) => scaled(bytes, ["B", "kB", "MB", "GB", "TB"]);
const flopsText = (flops) => scaled(flops, ["FLOP", "kFLOP", "MFLOP", "GFLOP", "TFLOP"]);
const plural = (count, word) => count + " " + word + (count === 1 ? "" : "s");
const isCollective = (call) => call[CALL.op] === "all_gather" || call[CALL.op] === "all_reduce";
const weightBytes = (call) =>
  call[CALL.weights].reduce((sum, id) => sum + program.weights[id][WEIGHT.bytes], 0);
const calls = (layer) => program.instructions.slice(layer.first, layer.end);
const sum = (list, of) => list.reduce((total, one) => total + of(one), 0);
const costOf = (list, which) => sum(list, (call) => call[CALL.costs][step][which]);
const movedBytes = (list) => costOf(list, 0);
const computed = (list) => costOf(list, 1);

function shapeText(value) {
  const one = program.values[value];
  return `${one[VALUE.dtype]} [${one[VALUE.rows]}, ${one[VALUE.cols]}]`;
}

// The name of a row: the value that it makes, or else the one that it reads.
function nameOf(call) {
  const value = [...call[CALL.made], ...call[CALL.read]][0];
  return value === undefined ? "" : program.values[value][NAME];
}

// The name without the layer and its number: "self_attn.q_proj+self_attn.k_proj".
const shortName = (name) => name.split("+").map((one) => one.replace(/^.*?\.\d+\./, "")).join("+");

// ---- Head ----

function addFact(list, name, text) {
  const fact = element("div");
  fact.append(element("dt", "", name), element("dd", "", text));
  list.append(fact);
}

function showTotals() {
  const totals = program.totals;
  const list = $("totals");
  list.replaceChildren();
  addFact(list, "weights", bytesText(totals.weights));
  if (totals.kv > 0) addFact(list, "KV per token", bytesText(totals.kv));
  if (totals.block > 0) addFact(list, "state per sequence", bytesText(totals.block));
  addFact(list, "activations", bytesText(totals.arena));
  addFact(list, "operators", String(program.instructions.length));
  addFact(list, "collectives per step",
    `${totals.gathers} all_gather, ${totals.reduces} all_reduce`);
  addFact(list, "sent per token", bytesText(totals.sent));
  addFact(list, "moved by the step", bytesText(movedBytes(program.instructions)));
  addFact(list, "computed by the step", flopsText(computed(program.instructions)));
}

function showHead() {
  document.title = `${program.model}: rank ${program.rank} of ${program.ranks}`;
  $("model").textContent = program.model;
  $("about").textContent = `rank ${program.rank} of ${program.ranks}, strategy ` +
    `${program.strategy}, numbers ${program.numbers}, up to ${program.limits.rows} rows per step ` +
    `and ${program.limits.context} positions`;
  program.steps.forEach((name, index) => {
    const option = element("option", "", name);
    option.value = index;
    $("step").append(option);
  });
}

// ---- Layers ----

function showFigures(layer) {
  const of = calls(layer);
  const meetings = of.filter(isCollective).length;
  const bar = element("span", "share");
  bar.append(element("span"));
  const all = Math.max(1, movedBytes(program.instructions));
  bar.firstChild.style.width = (100 * movedBytes(of)) / all + "%";
  bar.title = "share of the bytes that the step moves";
  layer.summary.replaceChildren(
    element("span", "name", layer.name),
    element("span", "figure quiet", plural(of.length, "operator")),
    element("span", "figure weights", bytesText(sum(of, weightBytes)) + " of weights"),
    element("span", "figure", flopsText(computed(of))),
    element("span", "figure collective", meetings > 0 ? plural(meetings, "collective") : ""), bar);
}

function makeRow(index) {
  const call = program.instructions[index];
  const row = element("button", "operator");
  row.type = "button";
  row.id = "i" + index;
  row.dataset.index = index;
  row.setAttribute("aria-expanded", "false");
  if (isCollective(call)) row.classList.add("meets");
  if (call[CALL.op] === "columns") row.classList.add("view");
  const shape = call[CALL.made].length > 0 ? shapeText(call[CALL.made][0]) : "";
  const bytes = weightBytes(call) > 0 ? bytesText(weightBytes(call)) : "";
  row.title = nameOf(call);
  row.append(element("span", "index", String(index)), element("span", "op", call[CALL.op]),
    element("span", "value", shortName(row.title)), element("span", "shape quiet", shape),
    element("span", "bytes", bytes));
  return row;
}

function makeRows(layer) {
  if (layer.rows) return;
  layer.rows = [];
  for (let index = layer.first; index < layer.end; ++index) layer.rows.push(makeRow(index));
  layer.element.append(...layer.rows);
}

function makeLayers() {
  for (const group of program.groups) {
    const layer = { name: group[GROUP.name], first: group[GROUP.first], end: group[GROUP.end] };
    layer.element = element("details", "layer");
    layer.summary = element("summary");
    layer.element.append(layer.summary);
    layer.element.addEventListener("toggle", () => layer.element.open && makeRows(layer));
    layers.push(layer);
  }
  $("layers").append(...layers.map((layer) => layer.element));
}

const layerOf = (index) => layers.find((layer) => layer.first <= index && index < layer.end);
function openLayer(layer, open) {
  if (open) makeRows(layer);
  layer.element.open = open;
}

// ---- One operator ----

function link(index) {
  const call = program.instructions[index];
  const made = element("a", "", `${index} ${call[CALL.op]} ${nameOf(call)}`);
  made.href = "#i" + index;
  return made;
}

function valueItem(value, isMade) {
  const one = program.values[value];
  const item = element("li");
  item.append(element("code", "", one[NAME]), element("br"),
    `${shapeText(value)}, ${one[VALUE.layout]}`, element("br"),
    element("span", "quiet", `memory ${one[VALUE.memory]}`));
  for (const index of isMade ? readers[value] : [makers[value]]) {
    item.append(element("br"), isMade ? "read by " : "made by ", link(index));
  }
  return item;
}

// The tensor, and the rectangle of it that this rank reads.
function drawRectangle(piece) {
  const shape = piece[PIECE.shape];
  const cols = Math.max(1, shape[shape.length - 1]);
  const rows = Math.max(1, shape.slice(0, -1).reduce((product, size) => product * size, 1));
  const tensor = element("div", "tensor");
  const rectangle = element("span");
  rectangle.style.top = (100 * piece[PIECE.rowBegin]) / rows + "%";
  rectangle.style.height = (100 * (piece[PIECE.rowEnd] - piece[PIECE.rowBegin])) / rows + "%";
  rectangle.style.left = (100 * piece[PIECE.colBegin]) / cols + "%";
  rectangle.style.width = (100 * (piece[PIECE.colEnd] - piece[PIECE.colBegin])) / cols + "%";
  tensor.append(rectangle);
  tensor.setAttribute("aria-hidden", "true");
  return tensor;
}

function pieceItem(piece) {
  const item = element("div", "piece");
  const tensors = piece[PIECE.tensors] > 1 ? ` (${piece[PIECE.tensors]} tensors, of each)` : "";
  const done = piece[PIECE.done] ? `, ${piece[PIECE.done]}` : "";
  item.append(element("code", "", piece[PIECE.source]), element("br"),
    `rows ${piece[PIECE.rowBegin]}:${piece[PIECE.rowEnd]}, columns ${piece[PIECE.colBegin]}:` +
    `${piece[PIECE.colEnd]} of [${piece[PIECE.shape].join(", ")}]${tensors}${done}`,
    drawRectangle(piece));
  return item;
}

function weightItem(id) {
  const weight = program.weights[id];
  const item = element("li");
  const matrices = weight[WEIGHT.matrices] > 1 ? ` in ${weight[WEIGHT.matrices]} matrices` : "";
  const paired = weight[WEIGHT.paired] ? " in pairs" : "";
  item.append(element("code", "", weight[NAME]), element("br"),
    `${weight[WEIGHT.role]} ${weight[WEIGHT.dtype]} [${weight[WEIGHT.rows]}, ` +
    `${weight[WEIGHT.cols]}]${matrices}${paired}, ${bytesText(weight[WEIGHT.bytes])}`);
  for (const piece of weight[WEIGHT.pieces]) item.append(pieceItem(piece));
  return item;
}

function addList(title, items) {
  if (items.length === 0) return;
  const list = element("ul");
  list.append(...items);
  detail.append(element("h3", "", title), list);
}

function tableRow(tag, texts) {
  const row = element("tr");
  row.append(...texts.map((text) => element(tag, "", text)));
  return row;
}

function addCosts(call) {
  const table = element("table");
  table.append(tableRow("th", ["step", "bytes", "arithmetic"]));
  program.steps.forEach((name, index) => {
    const [bytes, flops] = call[CALL.costs][index];
    table.append(tableRow("td", [name, bytesText(bytes), flopsText(flops)]));
  });
  detail.append(element("h3", "", "Costs at least"), table);
}

function showDetail(index) {
  const call = program.instructions[index];
  const close = element("button", "close", "Close");
  close.addEventListener("click", () => closeDetail(true));
  detail.setAttribute("aria-label", `operator ${index}`);
  detail.replaceChildren(close, element("h2", isCollective(call) ? "collective" : "",
    `${index} ${call[CALL.op]}`));
  detail.append(element("p", "formula quiet", program.formulas[call[CALL.op]]));
  if (call[CALL.attributes]) detail.append(element("p", "formula", call[CALL.attributes]));
  if (call[CALL.state]) detail.append(element("p", "", call[CALL.state]));
  addList("Makes", call[CALL.made].map((value) => valueItem(value, true)));
  addList("Reads", call[CALL.read].map((value) => valueItem(value, false)));
  addList("Weights", call[CALL.weights].map(weightItem));
  addCosts(call);
}

function closeDetail(keepsFocus) {
  if (!chosen) return;
  chosen.setAttribute("aria-expanded", "false");
  if (keepsFocus) chosen.focus();
  detail.remove();
  chosen = null;
  history.replaceState(null, "", location.pathname + location.search);
}

function choose(index, follows) {
  const layer = layerOf(index);
  if (!layer) return;
  if (chosen) chosen.setAttribute("aria-expanded", "false");
  openLayer(layer, true);
  chosen = layer.rows[index - layer.first];
  chosen.hidden = layer.element.hidden = false;  // The search may have hidden it.
  chosen.setAttribute("aria-expanded", "true");
  showDetail(index);
  chosen.after(detail);
  detail.scrollTop = 0;
  history.replaceState(null, "", "#i" + index);
  if (follows) chosen.focus();
}

function followHash() {
  const found = /^#i(\d+)$/.exec(location.hash);
  if (found) choose(Number(found[1]), true);
}

// ---- Find ----

function textOf(call) {
  const names = [...call[CALL.made], ...call[CALL.read]].map((id) => program.values[id][NAME]);
  for (const id of call[CALL.weights]) {
    const weight = program.weights[id];
    names.push(weight[NAME], ...weight[WEIGHT.pieces].map((piece) => piece[PIECE.source]));
  }
  return [call[CALL.op], ...names].join("\n").toLowerCase();
}
let texts = null; // By instruction; filled at the first search.

function find() {
  const wanted = $("find").value.trim().toLowerCase();
  texts = texts || program.instructions.map(textOf);
  let count = 0;
  for (const layer of layers) {
    const hits = texts.slice(layer.first, layer.end).map((text) => text.includes(wanted));
    count += hits.filter(Boolean).length;
    layer.element.hidden = !hits.includes(true);
    if (wanted && !layer.element.hidden) openLayer(layer, true);
    if (layer.rows) layer.rows.forEach((row, at) => (row.hidden = !hits[at]));
  }
  $("found").textContent = wanted ? plural(count, "operator") : "";
}

// ---- Keyboard and buttons ----

// The elements that can have the focus now, in order.
function stops() {
  return [...$("layers").querySelectorAll("summary, details[open] > .operator")].filter(
    (stop) => !stop.hidden && !stop.closest("details").hidden);
}

function move(by) {
  const all = stops();
  const at = all.indexOf(document.activeElement);
  const next = all[at < 0 ? 0 : Math.min(Math.max(at + by, 0), all.length - 1)];
  if (next) next.focus();
}

// The right key opens the focused element, the left key closes it or moves to its layer.
function turn(opens) {
  const at = document.activeElement;
  const layer = layers.find((one) => one.element.contains(at));
  if (!layer) return;
  if (at === layer.summary) {
    openLayer(layer, opens);
  } else if (at === chosen && !opens) {
    closeDetail(true);
  } else if (at.classList.contains("operator")) {
    if (opens) choose(Number(at.dataset.index), false);
    else layer.summary.focus();
  }
}

const KEYS = { ArrowDown: () => move(1), ArrowUp: () => move(-1), ArrowRight: () => turn(true),
  ArrowLeft: () => turn(false), "/": () => $("find").focus() };

function leave() {
  if (document.activeElement !== $("find")) return closeDetail(true);
  $("find").value = "";
  find();
  return move(0);
}

document.addEventListener("keydown", (event) => {
  if (event.key === "Escape") leave();
  const typing = ["INPUT", "SELECT"].includes(document.activeElement.tagName);
  if (typing || !KEYS[event.key] || event.ctrlKey || event.altKey || event.metaKey) return;
  event.preventDefault();
  KEYS[event.key]();
});

$("layers").addEventListener("click", (event) => {
  const row = event.target.closest(".operator");
  if (!row) return;
  if (row === chosen) closeDetail(true);
  else choose(Number(row.dataset.index), false);
});
$("tools").addEventListener("submit", (event) => event.preventDefault());
$("find").addEventListener("input", find);
$("open").addEventListener("click", () => layers.forEach((layer) => openLayer(layer, true)));
$("close").addEventListener("click", () => layers.forEach((layer) => openLayer(layer, false)));
$("step").addEventListener("change", () => {
  step = Number($("step").value);
  showTotals();
  layers.forEach(showFigures);
});
$("theme").addEventListener("click", () => {
  const dark = matchMedia("(prefers-color-scheme: dark)").matches;
  const now = document.documentElement.dataset.theme || (dark ? "dark" : "light");
  document.documentElement.dataset.theme = now === "dark" ? "light" : "dark";
});

showHead();
makeLayers();
showTotals();
layers.forEach(showFigures);
followHash();
addEventListener("hashchange", followHash);
