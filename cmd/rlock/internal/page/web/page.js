"use strict";
// Everything that comes from Redis is shown with textContent. Nothing here makes HTML of a text.

const $ = (id) => document.getElementById(id);
const SVG = "http://www.w3.org/2000/svg";
const narrow = matchMedia("(max-width: 720px)"); // as in the style sheet, which then shows each row as a card
const rowHeight = () => (narrow.matches ? 86 : 36); // pixels, as in the style sheet
const PAUSE = 200; // ms without a key until the server is asked for what was typed
const SPARE = 12; // rows that are rendered above and below what can be seen
const PATIENCE = 15000; // ms until a request to free a lock counts as not answered
const SILENCE = 12000; // ms without a word from the server until it counts as away; it speaks every 5 s

// The token comes in the fragment, which browsers do not send. It is kept in memory, and the address bar does not show it any more. The
// browser may have put the first address into its history already.
let token = "";
function takeToken() {
  if (!location.hash.startsWith("#token=")) return;
  token = new URLSearchParams(location.hash.slice(1)).get("token");
  history.replaceState(null, "", location.pathname + location.search + "#/");
}

let server = { max: 0, free: false };
let offset = 0; // what the server's clock is ahead of this one, in ms
let heard = 0; // when the server said something last
let resumed = 0; // when the tab was last shown again: while it is hidden, the server says nothing
let frozen = 0; // while nothing is read: when something was read last, by the server's clock. Nothing is known to go on since
const now = () => frozen || Date.now() + offset;
const live = () => document.documentElement.dataset.state === "live";

// --- Texts ---

const clockFormat = new Intl.DateTimeFormat("en-GB", { hour: "2-digit", minute: "2-digit", second: "2-digit" });
const dayFormat = new Intl.DateTimeFormat("en-GB", { day: "numeric", month: "short", hour: "2-digit", minute: "2-digit" });
const clock = (ms) => Number.isNaN(new Date(ms).getTime()) ? "?" : (Math.abs(now() - ms) < 64800000 ? clockFormat : dayFormat).format(ms);

function span(ms) {
  if (ms < 995) return Math.max(0, Math.round(ms / 10) * 10) + " ms";
  const s = Math.max(1, ms / 1000);
  if (s < 10) return (Math.floor(s * 10) / 10).toFixed(1) + " s";
  if (s < 60) return Math.floor(s) + " s";
  if (s < 3600) return Math.floor(s / 60) + " m " + Math.floor(s % 60) + " s";
  if (s < 86400) return Math.floor(s / 3600) + " h " + Math.floor((s % 3600) / 60) + " m";
  return Math.floor(s / 86400) + " d " + Math.floor((s % 86400) / 3600) + " h";
}
const whole = (ms) => (ms < 1000 ? "0 s" : ms < 10000 ? Math.floor(ms / 1000) + " s" : span(ms)); // for what is shown as it runs

function text(node, value) {
  if (node.textContent !== value) node.textContent = value;
}
function make(tag, className, ...children) {
  const node = document.createElement(tag);
  if (className) node.className = className;
  node.append(...children);
  return node;
}
function draw(tag, attributes, parent) {
  const node = document.createElementNS(SVG, tag);
  for (const [key, value] of Object.entries(attributes)) node.setAttribute(key, value);
  if (parent) parent.append(node);
  return node;
}

// reconcile makes the children of a node those of a list, by their keys, and leaves alone what stays. So the focus stays too.
function reconcile(parent, items, key, create, update) {
  const old = parent.nodes || new Map();
  const nodes = new Map();
  let place = parent.firstChild;
  const focused = document.activeElement;
  for (const item of items) {
    const k = key(item);
    if (nodes.has(k)) continue;
    let node = old.get(k);
    if (!node) node = create(item);
    nodes.set(k, node);
    update(node, item);
    if (node === place) place = place.nextSibling;
    else parent.insertBefore(node, place);
  }
  for (const [k, node] of old) if (!nodes.has(k)) node.remove();
  parent.nodes = nodes;
  if (focused !== document.activeElement && parent.contains(focused)) focused.focus({ preventScroll: true }); // it was moved
}

// --- What cells consist of ---

function showWho(node, who, named) {
  if (node.was === who + named) return;
  node.was = who + named;
  node.className = named ? "who" : "who bare";
  node.title = named || !who || who.startsWith("permit ") ? who : who + " — Redisson, or rlock without identity";
  const at = named ? who.indexOf("@") : -1;
  if (at < 0) node.textContent = who;
  else node.replaceChildren(make("b", "", who.slice(0, at)), make("span", "", who.slice(at)));
}

function makeLease() {
  const node = make("div", "lease", make("div", "rail", make("i")), make("span"));
  [node.fill, node.left] = [node.querySelector("i"), node.querySelector("span")];
  return node;
}
const leftOf = (item) => Math.max(0, item.ends - now());
const partOf = (item) => Math.min(1, leftOf(item) / (item.full || 1)); // it may have been over when it was first seen
const isLow = (item) => partOf(item) < 0.25;
// A lease that is renewed in time says nothing with its bar. It is shown again when a renewal, which comes at two thirds, is overdue.
function runLease(node, item) {
  const renewed = item.renewed && partOf(item) > 0.5;
  const left = leftOf(item);
  node.className = "lease" + (!item.ends ? " forever" : renewed ? " renewed" : isLow(item) ? " low" : "");
  node.fill.style.transform = "scaleX(" + (item.ends && !renewed ? partOf(item).toFixed(4) : 0) + ")";
  text(node.left, !item.ends ? "none" : renewed ? "renewed" : left ? whole(left) : "over");
  node.title = !item.ends ? "" : "ends at " + clock(item.ends) + " unless it is renewed";
}
const atLeast = (item, ms) => (item.before ? "at least " : "") + whole(Math.max(0, ms));
function showSince(node, item) {
  text(node, item.since && !item.kept ? atLeast(item, now() - item.since) : "");
  node.title = item.since ? (item.before ? "seen since " : "since ") + clock(item.since) : "";
}
// callsText says of waiters that each of them is a call, where that is so. Otherwise, each is a process.
const callsText = (item, n) => n + (item.calls && n ? (n === 1 ? " call" : " calls") : "");
function waitingText(item, n) {
  if (!n) return "0";
  if (n < 0) return "not known";
  if (!item.calls) return n + (n === 1 ? " process" : " processes");
  return callsText(item, n) + (item.processes ? " of " + item.processes + (item.processes === 1 ? " process" : " processes") : "");
}
const kindText = (item) => item.kind; // the name that metrics and logs have, too

// --- The table ---

const columns = [
  { id: "name", title: "Name", by: (r) => r.name },
  { id: "kind", title: "Kind", by: kindText },
  { id: "who", title: "Holder", by: (r) => r.who || "\uffff" },
  { id: "since", title: "Held for", by: (r) => r.since || Infinity },
  { id: "lease", title: "Lease", by: (r) => (r.holders ? r.ends || Infinity : Infinity) },
  { id: "waiters", title: "Waiting", num: true, down: true, by: (r) => r.waiters },
  { id: "holders", title: "Holders", num: true, down: true, by: (r) => r.holders },
];
// What needs attention comes first: locks that somebody waits for, those with the most waiters first, leases that are about to end and
// are not renewed, and locks without a lease, which neither rlock nor Redisson makes.
const attention = {
  id: "attention", title: "What needs attention", by: (r) => {
    if (r.waiters) return -r.waiters;
    if (!r.holders || r.kept || r.kind.includes("semaphore")) return Infinity; // what is kept ends on purpose
    if (!r.ends) return Number.MAX_SAFE_INTEGER;
    return isLow(r) ? r.ends : Infinity;
  },
};
const all = new Map(); // the rows by id
let sorted = []; // all rows, sorted
let order = []; // those that the filter lets through
let sortBy = attention;
let sortDown = false;
let unsorted = true; // sorted has to be made anew
let dirty = true; // order has to be
let ready = false;
const collator = new Intl.Collator("en", { numeric: true });

function sort() {
  if (unsorted) {
    sorted = [...all.values()];
    const { by } = sortBy;
    for (const row of sorted) row.key = by(row);
    sorted.sort((a, b) => {
      const c = typeof a.key === "string" ? collator.compare(a.key, b.key) : a.key === b.key ? 0 : a.key - b.key;
      return (sortDown ? -c : c) || collator.compare(a.name, b.name) || (a.id < b.id ? -1 : 1);
    });
    sorted.forEach((row, place) => { row.place = place; });
  }
  const words = $("q").value.toLowerCase().split(/\s+/).filter(Boolean).map(wordTest);
  const [kind, least] = [$("kind").value, Number($("waiting").value)];
  if (kind) words.push((row) => row.kind === kind);
  if (least) words.push((row) => row.waiters >= least);
  order = words.length ? sorted.filter((row) => words.every((fits) => fits(row))) : sorted;
  let contended = 0;
  order.forEach((row, index) => {
    row.index = index;
    contended += row.waiters > 0;
  });
  const number = (n) => n.toLocaleString("en");
  const of = Math.max(asking.text ? asking.of : total, order.length);
  text($("count"), (order.length === of ? number(of) : number(order.length) + " of " + number(of)) + (of === 1 ? " lock" : " locks") +
    " · " + number(contended) + " contended" + (part ? " · reading on" : "") + (frozen ? " · as of " + clock(frozen) : ""));
  unsorted = dirty = false;
}

// wordTest returns what says whether a row has a word that was typed: in its name or in its holder. A word with a star stands for the whole
// name, and the star for any part of it. The server does the same with the names that it has. With holder: before it, it is in the holder.
function wordTest(word) {
  if (word.startsWith("holder:")) return (row) => row.holder.includes(word.slice(7));
  if (!word.includes("*")) return (row) => row.hay.includes(word);
  const pieces = word.split("*");
  return (row) => {
    const last = pieces.length - 1;
    let name = row.low;
    if (!name.startsWith(pieces[0])) return false;
    name = name.slice(pieces[0].length);
    for (const piece of pieces.slice(1, last)) {
      const at = name.indexOf(piece);
      if (at < 0) return false;
      name = name.slice(at + piece.length);
    }
    return name.endsWith(pieces[last]);
  };
}

function makeRow() {
  const tr = make("tr");
  tr.setAttribute("role", "row"); // the style sheet may show it as a card
  const cells = {};
  for (const column of columns) {
    tr.append((cells[column.id] = make("td", "c-" + column.id + (column.num ? " num" : ""))));
    cells[column.id].setAttribute("role", "cell");
  }
  const link = make("a");
  cells.name.append(link);
  const [kind, who, more, since, lease] = [make("span", "kind"), make("span"), make("span", "more"), make("span", "time"), makeLease()];
  cells.kind.append(kind);
  cells.who.append(make("div", "whois", who, more));
  cells.since.append(since);
  cells.lease.append(lease);
  tr.parts = { link, kind, who, more, since, lease, waiters: cells.waiters, holders: cells.holders };
  return tr;
}
function fillRow(tr, row) {
  const p = tr.parts;
  tr.setAttribute("aria-rowindex", String(row.index + 2));
  if (tr.row !== row) { // rows are never changed, but replaced
    tr.row = row;
    tr.classList.toggle("fresh", Boolean(row.fresh));
    row.fresh = false;
    text(p.link, row.name === "" ? "(empty name)" : row.name);
    p.link.title = row.name;
    p.link.href = "#/lock/" + row.id;
    text(p.kind, kindText(row));
    p.kind.dataset.kind = row.kind;
    showWho(p.who, row.who || (row.holders ? "" : "free"), Boolean(row.named));
    p.more.hidden = row.holders < 2 && !row.free;
    text(p.more, row.free ? row.free + " free" : row.holders > 1 ? "+" + (row.holders - 1) : "");
    for (const of of ["waiters", "holders"]) {
      text(p[of], String(row[of]));
      p[of].classList.toggle("zero", !row[of]);
    }
    if (row.kept) text(p.holders, "0");
    text(p.waiters, callsText(row, row.waiters));
    p.waiters.title = waitingText(row, row.waiters);
    p.waiters.classList.toggle("some", row.waiters > 0);
    p.lease.hidden = !row.holders;
  }
  runRow(tr);
}
function runRow(tr) {
  showSince(tr.parts.since, tr.row);
  if (tr.row.holders) runLease(tr.parts.lease, tr.row);
}

// renderTable renders the rows that can be seen, and a few around them. The others are two empty rows of their height.
function renderTable() {
  if (dirty || unsorted) sort();
  const box = $("scroll");
  const high = rowHeight();
  const from = Math.max(0, Math.min(Math.floor(box.scrollTop / high) - SPARE, order.length));
  const to = Math.min(order.length, Math.ceil((box.scrollTop + $("list").clientHeight) / high) + SPARE);
  $("before").firstElementChild.firstElementChild.style.height = from * high + "px";
  $("after").firstElementChild.firstElementChild.style.height = (order.length - Math.max(to, from)) * high + "px";
  for (let i = from; i < to; i++) order[i].index = i;
  reconcile($("rows"), order.slice(from, to), (row) => row.id, makeRow, fillRow);
  $("table").setAttribute("aria-rowcount", String(order.length + 1));
  const typed = filterText();
  const empty = !order.length;
  $("empty").hidden = !empty;
  if (!empty) return;
  if (!ready && !wide) text($("empty"), document.documentElement.dataset.state === "loading" ? "Loading…" : "");
  else if (typed && wide && (!ready || part || asking.text !== typed)) text($("empty"), "Searching…");
  else if (typed) text($("empty"), "No lock matches.");
  else text($("empty"), server.prefix ? "There is no lock whose name begins with " + server.prefix : "There is no lock in this Redis.");
}

let asked = false;
function render() {
  if (asked) return;
  asked = true;
  requestAnimationFrame(() => {
    asked = false;
    if (!$("list").hidden) renderTable();
  });
}

// What the server has told of the rows. It has more than it sends if there are very many. Then it is wide, and what is typed is asked of
// the server, which knows all names.
let wide = false;
let total = 0; // how many rows there are
let part = false; // the server's first look goes on
let asking = { text: "", of: 0 }; // what the stream is asked for, and how many locks there are beside
let told = null; // the ids that this stream has told of, until it has told all

function applyRows(data) {
  const whole = !data.part && told;
  if (data.all && !told) told = new Set();
  for (const id of data.gone || []) unsorted = all.delete(id) || unsorted;
  for (const row of data.rows) {
    const old = all.get(row.id);
    row.fresh = ready && !old && !data.all && !told;
    row.low = row.name.toLowerCase();
    row.holder = (row.who || "").toLowerCase();
    row.hay = row.low + "\n" + row.holder;
    all.set(row.id, row);
    if (told) told.add(row.id);
    row.key = sortBy.by(row);
    if (!old || unsorted || old.key !== row.key) unsorted = true;
    else sorted[(row.place = old.place)] = row;
  }
  // Until the first look is over, what was known before stays.
  if (told && (whole || data.all) && !data.part) {
    for (const id of all.keys()) if (!told.has(id)) unsorted = all.delete(id);
    told = null;
  }
  dirty = true;
  ready = !data.unread;
  part = Boolean(data.part);
  total = data.total;
  if (!asking.text) {
    wide = Boolean(data.cut || data.part);
    asking.of = total;
  }
  $("cut").hidden = !data.cut || part;
  if (data.cut) {
    const waited = data.missed ? " Even of those that somebody waits for, not all are there." : " Those that somebody waits for are all there.";
    text($("cut"), asking.text ? total.toLocaleString("en") + " locks match, more than are shown." + waited
      : "There are more locks than are shown." + waited + " To find any other, type a part of its name: orders: or *:42");
  }
  $("q").placeholder = wide ? "Find by name, or holder:…" : "Filter by name or holder";
  render();
  if (wide && !asking.text && filterText()) connect(); // what was typed before this was known
}

function makeHeads() {
  for (const column of columns) {
    const button = make("button", "", column.title);
    button.type = "button";
    const th = make("th", "c-" + column.id + (column.num ? " num" : ""), button);
    th.scope = "col";
    th.setAttribute("role", "columnheader");
    column.th = th;
    button.addEventListener("click", () => {
      chooseSort(column, sortBy === column ? !sortDown : Boolean(column.down));
    });
    $("heads").append(th);
  }
  for (const column of [attention, ...columns]) $("sort").append(new Option(column.title, column.id));
  $("sort").addEventListener("change", () => {
    const column = [attention, ...columns].find((c) => c.id === $("sort").value);
    chooseSort(column, Boolean(column.down));
  });
  showSort();
}
function chooseSort(column, down) {
  [sortBy, sortDown, unsorted] = [column, down, true];
  showSort();
  render();
}
function showSort() {
  $("sort").value = sortBy.id;
  for (const column of columns) {
    if (column === sortBy) column.th.setAttribute("aria-sort", sortDown ? "descending" : "ascending");
    else column.th.removeAttribute("aria-sort");
  }
}

// The row that has the focus, or had it last: it may have left what is rendered, and taken the focus with it.
let visited = null;
document.addEventListener("focusin", (e) => { visited = e.target.closest("#rows tr"); });

// step goes from a row to the one before or after it, wherever it is now, or was if it is gone.
function step(row, down) {
  if (dirty || unsorted) sort();
  const place = order.findIndex((other) => other.id === row.id);
  const next = place < 0 ? row.index - (down ? 0 : 1) : place + (down ? 1 : -1);
  if (next < 0) $("q").focus();
  else moveTo(next);
}

// moveTo focuses a row, wherever it is.
function moveTo(index) {
  if (dirty || unsorted) sort();
  const row = order[Math.min(Math.max(index, 0), order.length - 1)];
  if (!row) return;
  const box = $("scroll");
  const [top, bottom] = [order.indexOf(row) * rowHeight(), (order.indexOf(row) + 1) * rowHeight() + $("heads").offsetHeight];
  if (top < box.scrollTop) box.scrollTop = top;
  if (bottom > box.scrollTop + box.clientHeight) box.scrollTop = bottom - box.clientHeight;
  renderTable();
  $("rows").nodes.get(row.id)?.parts.link.focus({ preventScroll: true });
}

// --- One lock ---

let lock = null; // what the server sent of it
let zoom = 0; // ms of history in the picture, or 0 for all

function personOf(item) {
  const parts = [];
  if (item.client && item.client !== item.who) parts.push((item.named ? "client " : "") + item.client);
  if (item.version) parts.push(item.version);
  if (item.started) parts.push("up since " + clock(item.started));
  if (item.mode) parts.push(item.mode);
  if (item.acquisitions > 1) parts.push("entered " + item.acquisitions + " times");
  if (item.expired) parts.push("expired");
  if (item.redisson) parts.push("Redisson");
  else if (!item.named && item.client) parts.push("Redisson, or rlock without identity");
  return parts.join(" · ");
}

function makeHolder(item) {
  const [who, since, about, lease] = [make("span"), make("div"), make("div"), makeLease()];
  const li = make("li", "", who, make("div", "sub", since, about), lease);
  li.parts = { who, since, about, lease };
  if (lock.lock.permits && mayFree()) {
    const button = make("button", "danger", "Take back…");
    button.type = "button";
    button.addEventListener("click", () => ask([li.item]));
    li.append(button);
  }
  return li;
}
function fillHolder(li, item) {
  li.item = item;
  showWho(li.parts.who, item.who, Boolean(item.named));
  runHolder(li);
}
function runHolder(li) {
  const { item, parts } = li;
  runLease(parts.lease, item);
  text(parts.since, "held for " + atLeast(item, now() - item.since));
  parts.since.title = (item.before ? "seen since " : "since ") + clock(item.since);
  parts.since.hidden = Boolean(lock.lock.kept);
  text(parts.about, (lock.lock.kept ? "kept until " + clock(item.ends) + " · " : "") + personOf(item));
}
function fillWaiter(li, item) {
  li.item = item;
  showWho(li.children[0], item.who, Boolean(item.named));
  const waits = item.since ? "for " + whole(Math.max(0, now() - item.since)) : "";
  li.title = item.since ? "since " + clock(item.since) : "";
  text(li.children[1], [waits, personOf(item)].filter(Boolean).join(" · "));
}

// guard lets nothing be freed while nobody knows who holds it.
function guard() {
  for (const button of document.querySelectorAll("#free, #do-free, #holders button")) {
    button.disabled = !live();
    button.title = live() ? "" : "What is shown is stale, so nothing can be freed.";
  }
}

const mayFree = () => server.free && token !== "";

function renderLock() {
  const l = lock.lock;
  text($("name"), lock.name || (lock.id === "" || !lock.id.startsWith("~") ? "(empty name)" : lock.read ? "(a long name that is not known)" : "…"));
  document.title = lock.name + " – " + (server.title || "rlock");
  const facts = [];
  if (!lock.read) facts.push(make("span", "", "reading"));
  else if (!l) facts.push(make("span", "", "free: there is no such lock in Redis now"));
  else {
    const kind = make("span", "kind", l.counter ? "a counter with the value " + (l.free || 0) + ": a latch, or a plain semaphore" : kindText(l));
    kind.dataset.kind = l.kind;
    facts.push(kind);
    if (l.token) facts.push(make("span", "", "fencing token ", make("b", "", l.token)));
    if (l.permits) facts.push(make("span", "", make("b", "", String(l.free || 0)), " free"));
  }
  if (lock.bytes > lock.name.length * 4 || lock.name.endsWith("…")) facts.push(make("span", "", "name cut, of " + lock.bytes.toLocaleString("en") + " bytes"));
  $("facts").replaceChildren(...facts);
  const holders = l ? l.holders : [];
  const waiters = l ? l.waiters : [];
  const count = (id, title, n, shown) => $(id).replaceChildren(title, make("b", "", n > shown ? n + ", the first " + shown : String(n)));
  if (l && l.counter) $("h-holders").replaceChildren("Holders");
  else if (l && l.kept) $("h-holders").replaceChildren("Nobody holds it: it is kept");
  else count("h-holders", l && l.permits ? "Permits that are out" : "Holders", l ? l.holderCount : 0, holders.length);
  const waitCount = (title, n, shown) => $("h-waiters").replaceChildren(title, make("b", "", waitingText(l || {}, n) + (shown && n > shown ? ", the first " + shown : "")));
  waitCount(l && (l.kind === "fair" || l.kind === "fenced fair") ? "Queue" : "Waiting", l ? l.waiterCount : 0, waiters.length);
  reconcile($("holders"), holders, (h) => h.ref, makeHolder, fillHolder);
  const place = waiters.map((w, i) => ({ ...w, place: i }));
  reconcile($("waiters"), place, (w) => w.place, () => make("li", "", make("span"), make("span", "sub")), fillWaiter);
  text($("no-holders"), l && l.counter ? "Redis does not know who has its permits." : l && !l.permits && l.holderCount ? "The holders are not listed." : "Nobody holds it.");
  text($("no-waiters"), !l || !l.waiterCount ? "Nobody waits." : l.waiterCount < 0 ? "Who waits is not known: the user of this page may not ask (+pubsub)." : "Redis does not say which.");
  $("no-holders").hidden = holders.length > 0 || !lock.read;
  $("no-waiters").hidden = waiters.length > 0 || !lock.read;
  const whole = l && !l.permits && holders.length > 0 && holders.length === l.holderCount;
  $("free").hidden = !mayFree() || !whole;
  guard();
  renderHistory();
}

// hue gives a holder its color, for as long as its lock is shown: holders that follow each other look different.
let hues = new Map();
function hue(hold) {
  if (!hues.has(hold.who)) hues.set(hold.who, "h" + (hues.size % 8));
  return hues.get(hold.who);
}
const holdText = (h) => (h.who || "") + (h.mode ? " · " + h.mode : "");
const fromText = (h) => clock(h.start) + (h.before ? " or before" : "");
const toText = (h) => (h.end ? clock(h.end) + (h.after ? " or later" : "") : "now");
const forText = (h) => (h.before || h.after ? "at least " : "") + span((h.end || now()) - h.start);

function renderHistory() {
  const holds = lock.history;
  $("no-history").hidden = holds.length > 0;
  drawTimeline();
  $("timeline").style.display = holds.length ? "" : "none";
  const rows = holds.slice().reverse();
  reconcile($("log"), rows, (h) => h.start + holdText(h), () => make("tr", "", make("td"), make("td", "num"), make("td"), make("td")), (tr, h) => {
    tr.hold = h;
    if (!tr.cells[0].firstChild) {
      const dot = draw("svg", { viewBox: "0 0 8 8", "aria-hidden": "true" });
      draw("rect", { width: 8, height: 8, rx: 2, class: hue(h) }, dot);
      tr.cells[0].append(dot, make("span", "who", holdText(h)));
      tr.cells[0].title = holdText(h);
    }
    text(tr.cells[1], forText(h));
    text(tr.cells[2], fromText(h));
    text(tr.cells[3], toText(h));
  });
  for (const id of ["holders", "waiters", "past"]) { // what scrolls must scroll by the keyboard, too
    if ($(id).scrollHeight > $(id).clientHeight || $(id).scrollWidth > $(id).clientWidth) $(id).tabIndex = 0;
    else $(id).removeAttribute("tabindex");
  }
}

const steps = [1, 2, 5, 10, 15, 30, 60, 120, 300, 600, 900, 1800, 3600, 7200, 14400, 43200, 86400];

// lanes gives holds that overlap places above each other, and returns how many there are.
function lanes(holds) {
  const ends = []; // of the lanes
  for (const h of holds) {
    let lane = ends.findIndex((end) => end <= h.start);
    if (lane < 0) lane = ends.length;
    ends[lane] = h.end || Infinity;
    h.lane = lane;
  }
  return Math.max(1, ends.length);
}

function drawTimeline() {
  const svg = $("timeline");
  const end = now();
  const width = svg.clientWidth || 1000;
  svg.replaceChildren();
  if (!lock.history.length) return;
  const begin = zoom ? end - zoom : Math.min(lock.history[0].start, end - 10000);
  const holds = lock.history.filter((h) => (h.end || end) >= begin);
  const many = lanes(holds);
  const high = many === 1 ? 35 : Math.max(8, Math.min(18, Math.floor(140 / many)));
  const bottom = 12 + many * high + (many - 1) * 2;
  svg.style.height = bottom + 37 + "px";
  const x = (ms) => ((ms - begin) / (end - begin)) * width;
  const hatch = draw("pattern", { id: "hatch", width: 7, height: 7, patternUnits: "userSpaceOnUse", patternTransform: "rotate(45)" }, draw("defs", {}, svg));
  draw("line", { x1: 0, x2: 0, y1: 0, y2: 7, class: "hatch" }, hatch);
  draw("rect", { x: 0.5, y: 4.5, width: width - 1, height: bottom + 3, rx: 6, class: "rail" }, svg);
  const unseen = draw("rect", { x: 0.5, y: 4.5, width: width - 1, height: bottom + 3, rx: 6, fill: "url(#hatch)", class: "unseen" }, svg);
  draw("title", {}, unseen).textContent = "not observed: nobody looked";
  for (const [from, to] of lock.looked) {
    const until = to > end - 5000 ? end : to; // the latest look has just been
    const left = Math.max(1, x(from));
    const right = Math.min(width - 1, x(until));
    if (right > left) draw("rect", { x: left, y: 5, width: right - left, height: bottom + 2, class: "seen" }, svg);
  }
  const step = 1000 * (steps.find((s) => ((s * 1000) / (end - begin)) * width >= 90) || 86400);
  const zone = new Date().getTimezoneOffset() * 60000; // so that ticks are at full local hours
  for (let t = Math.ceil((begin - zone) / step) * step + zone; t <= end; t += step) {
    draw("line", { x1: x(t), x2: x(t), y1: 5, y2: bottom + 13, class: "grid" }, svg);
    const at = Math.min(Math.max(x(t), 26), width - 26);
    draw("text", { x: at, y: bottom + 27, "text-anchor": "middle" }, svg).textContent = clock(t);
  }
  for (const h of holds) {
    const left = Math.max(0, x(h.start));
    const wide = Math.max(1.5, x(h.end || end) - left - (h.end ? 1 : 0));
    const top = 12 + h.lane * (high + 2);
    const group = draw("g", {}, svg);
    draw("title", {}, group).textContent = holdText(h) + "\n" + fromText(h) + " – " + toText(h) + " (" + forText(h) + ")";
    draw("rect", { x: left, y: top, width: wide, height: high, rx: Math.min(4, wide / 2), class: hue(h) }, group);
    for (const at of [h.before && x(h.start) >= 0 && left + 1, h.after && left + wide - 1]) {
      if (at) draw("line", { x1: at, x2: at, y1: top, y2: top + high, class: "loose" }, group);
    }
    const room = high < 14 ? 0 : Math.floor((wide - 16) / 6.8);
    if (room >= 4) {
      const label = holdText(h);
      draw("text", { x: left + 8, y: top + high / 2 + 4, class: "label" }, group).textContent = label.length > room ? label.slice(0, room - 1) + "…" : label;
    }
  }
  svg.setAttribute("aria-label", "Timeline: " + lock.history.length + " holds since " + clock(lock.history[0].start) + ". They are listed below.");
}

function makeSpans() {
  for (const [title, ms] of [["1 min", 60000], ["10 min", 600000], ["All", 0]]) {
    const button = make("button", "", title);
    button.type = "button";
    button.setAttribute("aria-pressed", String(ms === zoom));
    button.addEventListener("click", () => {
      zoom = ms;
      for (const b of $("spans").children) b.setAttribute("aria-pressed", String(b === button));
      if (lock) drawTimeline();
    });
    $("spans").append(button);
  }
}

// --- Freeing ---

let victim = null; // the lock that the dialog is about, and the holders that it shows

function ask(holders) {
  victim = { id: lock.id, name: lock.name, refs: holders.map((h) => h.ref), permit: lock.lock.permits };
  text($("ask"), (lock.lock.permits ? "Take a permit of “" : "Free “") + lock.name + (lock.lock.permits ? "” back?" : "”?"));
  $("victims").replaceChildren(...holders.map((h) => {
    const who = make("span");
    showWho(who, h.who, Boolean(h.named));
    const more = make("div", "muted", personOf(h));
    return make("li", "", who, more);
  }));
  $("confirm").showModal();
  $("cancel").focus();
}

async function free() {
  const { id, name, refs, permit } = victim;
  $("confirm").close();
  let reply;
  try {
    const response = await fetch("free", {
      method: "POST", headers: { "Content-Type": "application/json", "X-Rlock-Token": token }, body: JSON.stringify({ id, refs }),
      signal: AbortSignal.timeout(PATIENCE),
    });
    reply = await response.json();
  } catch {
    reply = { why: "the server of this page does not answer. The lock may or may not have been freed" };
  }
  if (!lock || lock.id !== id) return;
  $("result").classList.toggle("ok", Boolean(reply.freed));
  text($("result"), reply.freed ? (permit ? "A permit of “" + name + "” was taken back." : "“" + name + "” was freed.") : "Nothing was freed: " + reply.why + ".");
  $("result").hidden = false;
}

// --- The connection ---

let events = null;
let retry = 0;
let searching = false; // whether the table is to come with the search focused
let view = ""; // the id of the lock that is shown, or empty for the table

// renderWaits shows for how long waiters wait, and holds of the history last.
function renderWaits() {
  if (!lock) return;
  for (const li of $("waiters").children) fillWaiter(li, li.item);
  renderHistory();
}
function setState(state, words, banner) {
  document.documentElement.dataset.state = state;
  text($("live-text"), words);
  $("stale").hidden = !banner;
  if (banner) text($("stale"), banner);
  dirty = true;
  guard();
  render();
  renderWaits(); // what was shown may be younger than what was heard last
}
function hear(data) {
  heard = Date.now();
  offset = data.now - heard;
}
function showStatus(data) {
  frozen = data.stale || 0;
  $("note").hidden = !data.note;
  text($("note"), data.note || "");
  if (!data.stale) return setState(data.part || data.read === false ? "loading" : "live", data.part || data.read === false ? "loading" : "live", "");
  const since = clock(data.stale);
  setState("stale", "stale since " + since, "Stale since " + since + (data.alone ? ": this lock cannot be read" : ": Redis cannot be read") + " (" + data.why + "). The page goes on when it can.");
}
function away(why = "the server of this page does not answer. Is rlock ui still running?") {
  const since = heard ? " since " + clockFormat.format(heard) : "";
  if (heard) frozen ||= heard + offset;
  setState("away", "stale" + since, "Stale" + since + ": " + why + (why.endsWith("?") ? "" : ".") + " Trying again.");
}

function disconnect() {
  clearTimeout(retry);
  if (events) events.close();
  events = null;
}

// refused shows why the server refuses the stream, which an EventSource does not tell.
async function refused(source) {
  const stop = new AbortController();
  try {
    const response = await fetch(source.url, { signal: stop.signal });
    const why = response.ok ? "" : (await response.text()).trim();
    if (why && source === events) away("the server of this page refuses: " + why);
  } catch {
    // It is away.
  } finally {
    stop.abort();
  }
}

function connect() {
  disconnect();
  if (document.hidden) return; // a browser has few connections to one server, and those that are seen need them
  const query = view || !wide ? "" : filterText();
  if (query !== asking.text) {
    asking.text = query;
    ready = part = false;
  }
  told = null;
  const source = new EventSource("events" + (view ? "?lock=" + encodeURIComponent(view) : query && "?" + query));
  events = source;
  const on = (name, fn) => source.addEventListener(name, (e) => {
    if (source !== events) return;
    const data = JSON.parse(e.data);
    hear(data);
    fn(data);
  });
  on("hello", (data) => {
    server = data;
    text($("title"), data.title);
    text($("where"), data.where);
    $("where").hidden = !data.where;
    text($("prefix"), data.prefix + "*");
    $("prefix").hidden = !data.prefix;
    if (!view) document.title = data.title;
    if (!live()) setState("loading", "loading", "");
  });
  on("rows", (data) => { showStatus(data); applyRows(data); });
  on("lock", (data) => { lock = data.lock; showStatus(lock); renderLock(); });
  on("beat", () => {});
  source.addEventListener("error", () => {
    if (source !== events) return;
    away();
    if (source.readyState !== EventSource.CLOSED) return; // it tries again itself
    refused(source);
    retry = setTimeout(connect, 2000);
  });
}

// idOf returns the id of a lock for what is in an address after #/lock/, which a person may have written. The server makes ids in the same
// way: the name, with all escaped but a few.
function idOf(part) {
  if (/^~[\w-]{27}$/.test(part)) return part; // the hash of a long name
  let id = "";
  for (const [piece] of part.matchAll(/%[0-9a-f]{2}|[^]/giu)) {
    const one = /^%..$/.test(piece) ? String.fromCharCode(parseInt(piece.slice(1), 16)) : piece;
    if (/^[\w.:/@=,+-]$/.test(one)) id += one;
    else id += piece.length === 3 && piece[0] === "%" ? piece.toUpperCase() : [...new TextEncoder().encode(piece)].map((byte) => "%" + byte.toString(16).toUpperCase().padStart(2, "0")).join("");
  }
  return id;
}

// filterText is what is filtered by, as the server is asked for it.
function filterText() {
  const words = $("q").value.trim().split(/\s+/);
  const holder = words.find((word) => word.startsWith("holder:")) || "";
  const q = holder ? words.filter((word) => !word.startsWith("holder:")).join(" ") : $("q").value;
  const all = { q, holder: holder.slice(7), kind: $("kind").value, waiting: $("waiting").value };
  return new URLSearchParams(Object.entries(all).filter(([, value]) => value)).toString();
}
// listHash is the address of the table with its filter.
function listHash() {
  const all = { q: $("q").value, kind: $("kind").value, waiting: $("waiting").value };
  const parts = Object.entries(all).filter(([, value]) => value).map(([key, value]) => key + "=" + encodeURIComponent(value).replaceAll("%3A", ":").replaceAll("%2F", "/"));
  return "#/" + (parts.length ? "?" + parts.join("&") : "");
}

function route() {
  takeToken();
  const [, id] = /^#\/lock\/(.*)$/s.exec(location.hash) || [];
  const from = view; // and not what was heard of it, which may be nothing yet
  view = idOf(id || "");
  const [, filters] = /^#\/\?(.*)$/s.exec(location.hash) || [];
  for (const part of filters ? filters.split("&") : []) {
    const [, key, value] = /^(q|kind|waiting)=(.*)$/s.exec(part) || [];
    if (!key) continue;
    try {
      $(key).value = decodeURIComponent(value);
    } catch {
      $(key).value = value; // it is no escaped text
    }
  }
  $("back").href = listHash();
  dirty = true;
  lock = null;
  hues = new Map();
  $("list").hidden = Boolean(view);
  $("one").hidden = !view;
  $("result").hidden = true;
  if ($("confirm").open) $("confirm").close();
  if (view) {
    const row = all.get(view);
    text($("name"), row ? row.name : "…");
    for (const part of ["facts", "holders", "waiters", "log", "timeline"]) {
      $(part).replaceChildren();
      $(part).nodes = null;
    }
    for (const part of ["free", "no-holders", "no-waiters", "no-history"]) $(part).hidden = true;
    $("name").focus({ preventScroll: true });
  } else {
    document.title = server.title || "rlock";
    renderTable();
    if (searching) $("q").focus();
    else if (from) moveTo(order.findIndex((row) => row.id === from));
  }
  searching = false;
  connect();
}

// --- Keys and clocks ---

document.addEventListener("keydown", (e) => {
  if (e.ctrlKey || e.metaKey || e.altKey || $("confirm").open) return;
  const typing = e.target === $("q");
  if (e.key === "/" && !typing) {
    e.preventDefault();
    searching = Boolean(view);
    if (view) location.hash = listHash();
    else $("q").focus();
  } else if (e.key === "Escape" && typing) {
    e.preventDefault();
    if ($("q").value) { $("q").value = ""; filter(); } else $("q").blur();
  } else if (e.key === "Escape" && view) {
    location.hash = listHash();
  } else if (!view && (e.key === "ArrowDown" || e.key === "ArrowUp" || (typing && e.key === "Enter"))) {
    const row = e.target.closest?.("#rows tr")?.row || (e.target === document.body && visited?.row);
    if (!row && !typing && e.target !== document.body) return;
    e.preventDefault();
    if (e.key === "Enter") {
      history.replaceState(null, "", listHash()); // where Back leads
      if (order.length) location.hash = "#/lock/" + order[0].id;
      else if (wide && $("q").value) location.hash = "#/lock/" + idOf($("q").value.replaceAll("%", "%25"));
    }
    else if (row) step(row, e.key === "ArrowDown");
    else if (e.key === "ArrowDown") moveTo(0);
  }
});

let pause = 0;
function filter() {
  dirty = true;
  $("scroll").scrollTop = 0;
  renderTable();
  clearTimeout(pause);
  pause = setTimeout(() => {
    if (view || location.hash.startsWith("#/lock/")) return; // or a lock is about to be shown
    history.replaceState(null, "", listHash()); // not with each key: some browsers refuse that
    if (wide && filterText() !== asking.text) connect();
  }, PAUSE);
}
$("q").addEventListener("input", filter);
for (const id of ["kind", "waiting"]) $(id).addEventListener("change", filter);
$("rows").addEventListener("animationend", (e) => e.target.closest("tr").classList.remove("fresh"));
$("scroll").addEventListener("scroll", render, { passive: true });
$("free").addEventListener("click", () => ask(lock.lock.holders));
$("cancel").addEventListener("click", () => $("confirm").close());
$("do-free").addEventListener("click", free);
window.addEventListener("resize", () => { dirty = true; render(); if (lock) drawTimeline(); });
window.addEventListener("hashchange", route);
window.addEventListener("pagehide", disconnect);
document.addEventListener("visibilitychange", () => {
  if (document.hidden) return disconnect();
  resumed = Date.now();
  if (!events) connect();
});
window.addEventListener("pageshow", (e) => { if (e.persisted) connect(); });

setInterval(() => {
  if (!document.hidden && heard && Date.now() - Math.max(heard, resumed) > SILENCE && document.documentElement.dataset.state !== "away") { away(); connect(); }
  if (document.hidden) return;
  if (!view && sortBy === attention && sorted.some((row) => row.key !== attention.by(row))) { // a lease comes to its end
    unsorted = true;
    render();
  }
  if (!view) for (const tr of $("rows").children) runRow(tr);
  else for (const li of $("holders").children) runHolder(li);
}, 250);
setInterval(() => { if (!document.hidden) renderWaits(); }, 1000);

makeHeads();
makeSpans();
route();
