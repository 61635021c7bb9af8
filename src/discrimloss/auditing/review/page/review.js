// Shows one suspicious sample at a time. The server has the state of all samples. This page loads a
// stretch (consecutive samples that pass the filter), and goes from one open sample to the next.

import {ask, Outbox, RequestFailed} from "./outbox.js";
import {breakable, byId, decisionText, drawDecision, drawFacts, drawSample, drawStrip, drawWhy, element, labelText, makePicture} from "./drawing.js";
import {drawChoices} from "./choices.js";
import {drawFilters, readAddress, writeAddress} from "./filters.js";
import {drawGroup, groupTargets} from "./groups.js";
import {Picker} from "./picker.js";
import {byWhom, drawOpinions, drawReviewers, knowReviewer, reviewerName} from "./reviewers.js";

const STRETCH = 24, AHEAD = 4, KEPT_READY = 60, POLL_MILLISECONDS = 2000;
const FEWEST_CHECKED = 30;
const LONGEST_LARGE = 9; // maximum number of letters of a word in large type
const PROGRESS_NAMES = {incorrect: "incorrect", undecided: "undecided", hard: "hard", easy: "easy", unseen: "unseen", all: "samples"};

const filter = {verdict: "incorrect", class: null, decision: "all", order: "worst", problem: "all"};
const ready = new Map(); // by index: {details, picture}, promises for the next samples
let about, outbox, picker, tab;
let stretch = null; // the last response of /api/samples
let current = null; // the row of the sample on the page; null while it is loading
let wanted = null; // the index of the sample to show
let version = 0;

// -- asking ----------------------------------------------------------------------------------------

async function fetchStretch(near) {
  await outbox.settled(); // so that the response includes the last decision
  const query = new URLSearchParams({verdict: filter.verdict, decision: filter.decision, order: filter.order, limit: STRETCH});
  if (reviewerName() !== null) query.set("reviewer", reviewerName());
  if (filter.class !== null) query.set("class", filter.class);
  if (filter.problem !== "all") query.set("problem", filter.problem);
  if (near !== null) query.set("near", near);
  return ask(`/api/samples?${query}`);
}

function makeReady(index) {
  if (!ready.has(index)) {
    const details = ask(`/api/samples/${index}`);
    details.catch(() => ready.delete(index)); // so that it is requested again
    const picture = about.kind === "images" ? makePicture(index) : null;
    ready.set(index, {details, picture});
    if (ready.size > KEPT_READY) ready.delete(ready.keys().next().value);
  }
  return ready.get(index);
}

// -- showing ---------------------------------------------------------------------------------------

async function show(index) {
  wanted = index;
  current = null;
  enableButtons();
  writeAddress(filter, wanted);
  try {
    const {details: asked, picture: prepared} = makeReady(index);
    const [details, near] = await Promise.all([asked, fetchStretch(index)]);
    const picture = details.has_image ? prepared ?? makePicture(index) : null;
    if (picture && !(await picture.ready)) {
      ready.delete(index);
      details.unreadable = "its picture cannot be read.";
    }
    if (wanted !== index) return; // the reviewer has moved on
    stretch = near;
    current = {...details, ...rowOf(index), place: near.place};
    byId("end").hidden = true;
    byId("stage").hidden = byId("panel").hidden = false;
    drawSample(byId("sample"), details, picture);
    drawWhy(byId("why"), details, smallPicture(), show);
    drawCurrent();
    drawAround();
    stretch.rows.filter(row => row.place > current.place).slice(0, AHEAD).forEach(row => makeReady(row.index));
  } catch (error) {
    failed(error);
    if (wanted === index) setTimeout(() => { if (wanted === index && !current) show(index); }, POLL_MILLISECONDS);
  }
}

const smallPicture = () => about.kind === "images" ? index => `/api/image/${index}?size=small` : null;
const rowOf = index => stretch.rows.find(row => row.index === index);

function drawCurrent() {
  byId("sample-id").textContent = current.id;
  byId("given").replaceChildren(...breakable(labelText(current.given)));
  byId("suggested").replaceChildren(...breakable(labelText(current.suggested)));
  const parts = [current.given, current.suggested].flatMap(label => labelText(label).split(/[ _./-]/));
  byId("labels").classList.toggle("long", parts.some(part => part.length > LONGEST_LARGE));
  drawFacts(byId("facts"), current);
  drawDecision(byId("decision"), current.decision, tab, byWhom(current.decision));
  drawOpinions(byId("opinions"), current);
  drawChoices(current, relabel);
  enableButtons();
}

function drawAround() {
  const place = stretch.contains ? `${stretch.position + 1} of ${stretch.total}` : `outside of the ${stretch.total}`;
  byId("position").textContent = `${place} in this view`;
  drawStrip(byId("strip"), stretch.group ? [] : stretch.rows, wanted, smallPicture(), show);
  drawGroup(filter.order, stretch.group, wanted, {pictureOf: smallPicture(), onChoose: show});
  drawSpotCheck(stretch.spot_check);
  drawProgress(stretch.progress);
}

// Draws the noise rate that is estimated from decisions in random order.
function drawSpotCheck(found) {
  byId("spot-check").hidden = !found;
  if (!found) return;
  const percent = fraction => `${(100 * fraction).toFixed(1)} %`;
  const {checked, wrong, interval: [low, high]} = found;
  const rate = checked ? `${percent(wrong / checked)} (${percent(low)} to ${percent(high)})` : "";
  byId("spot-check").textContent = checked < FEWEST_CHECKED
    ? `Decide on ${FEWEST_CHECKED} random samples or more to estimate the noise rate: ${checked} so far.`
    : `${wrong} of ${checked} random labels are wrong: ${rate}.`
      + (wrong ? ` An audit with --noise-rate ${(wrong / checked).toFixed(3)} uses this rate.` : "");
}

function drawProgress({open, decided, skipped}) {
  const total = open + decided + skipped;
  byId("progress").max = Math.max(total, 1);
  byId("progress").value = decided;
  byId("progress-text").textContent =
    `${decided} of ${total} ${PROGRESS_NAMES[filter.verdict]} reviewed` + (skipped ? `, ${skipped} skipped` : "");
  document.title = `${decided}/${total} · ${about.name}`;
}

function enableButtons() {
  for (const button of document.querySelectorAll("#actions button, #choices button")) button.disabled = !current;
  byId("relabel").disabled = !canRelabel();
  byId("reopen").hidden = !current?.decision;
  byId("undo").disabled = false;
}

const canRelabel = () => Boolean(current) && current.suggested !== null && current.suggested !== current.given;

function notify(sentence, isWarning = false) {
  byId("notice").textContent = sentence;
  byId("notice").classList.toggle("warning", isWarning);
}

async function showEnd() {
  wanted = current = null;
  writeAddress(filter, wanted);
  const state = await ask("/api/state?since=" + version);
  const total = stretch.total;
  byId("stage").hidden = byId("panel").hidden = true;
  byId("end").hidden = false;
  byId("strip").replaceChildren();
  byId("group").hidden = true;
  drawReviewers(state);
  drawProgress(stretch.progress);
  const {open, decided, skipped} = stretch.progress;
  byId("end-title").textContent = !(open + decided + skipped) || !total && open
    ? "No sample matches the filters"
    : skipped ? `${decided} reviewed, ${skipped} skipped` : `All ${decided} are reviewed`;
  const {keep = 0, relabel = 0, drop = 0, skip = 0} = state.actions;
  byId("end-counts").textContent =
    `In all: ${keep} kept, ${relabel} relabelled, ${drop} dropped, ${skip} skipped.`;
  const buttons = [];
  const offer = (text, changes) => {
    const button = element("button", {type: "button", textContent: text});
    button.addEventListener("click", () => setFilter({...filter, ...changes}));
    buttons.push(button);
  };
  if (skipped) offer(`Go through the ${skipped} skipped`, {decision: "skipped"});
  if (decided) offer("Look at what was decided", {decision: "decided"});
  if (filter.class !== null) offer("All classes", {class: null});
  if (filter.problem !== "all") offer("All problems", {problem: "all"});
  if (filter.verdict !== "incorrect" && about.verdict_counts.incorrect) offer("The incorrect ones", {verdict: "incorrect", decision: "all"});
  if (filter.verdict === "incorrect" && about.verdict_counts.hard) offer("Continue with the hard ones", {verdict: "hard", decision: "all"});
  if (filter.verdict === "incorrect" && about.verdict_counts.undecided) offer("Continue with the undecided ones", {verdict: "undecided", decision: "all"});
  byId("end-buttons").replaceChildren(...buttons);
  byId("end-command").textContent = about.apply_command;
  byId("end-title").focus();
}

// -- going -----------------------------------------------------------------------------------------

async function goOn(from) {
  const isPlain = filter.decision === "all" || filter.decision === "open";
  const following = stretch?.rows.find(row => row.place > from.place && (!isPlain || row.state === "open"));
  if (following) return show(following.index);
  try {
    stretch = await fetchStretch(from.index);
    if (stretch.next !== null) return await show(stretch.next);
    await showEnd();
  } catch (error) {
    failed(error);
  }
}

function step(by) {
  if (!stretch || wanted === null) return;
  const place = (current ?? rowOf(wanted))?.place;
  if (place === undefined) return;
  const rows = by > 0 ? stretch.rows.filter(row => row.place > place) : stretch.rows.filter(row => row.place < place).reverse();
  if (rows.length) {
    notify(""); // the message is about another sample
    show(rows[0].index);
  } else if (current) notify(by > 0 ? "This is the last one." : "This is the first one.");
}

async function start() {
  try {
    stretch = await fetchStretch(wanted);
    const index = wanted ?? stretch.next;
    if (index !== null) await show(index);
    else await showEnd();
  } catch (error) {
    failed(error);
    setTimeout(start, POLL_MILLISECONDS);
  }
}

function setFilter(changed) {
  Object.assign(filter, changed);
  wanted = null;
  notify(changed.order && !["worst", "random"].includes(changed.order) ? "Comparing the samples…" : "");
  drawFilters(about, filter);
  writeAddress(filter, wanted);
  return start().then(() => { if (byId("notice").textContent.startsWith("Comparing")) notify(""); });
}

// -- deciding --------------------------------------------------------------------------------------

const randomName = () => Array.from(crypto.getRandomValues(new Uint8Array(12)), byte => byte.toString(16).padStart(2, "0")).join("");

function decide(action, label) {
  if (!current) return; // not shown yet: there is nothing to decide on
  const row = current;
  const request = {...signed(action), index: row.index, seen: row.decision?.event ?? null};
  if (label !== undefined) request.label = label;
  const decision = action === "reopen" ? null : {event: request.event, tab, action, label, reviewer: reviewerName()};
  note(row.index, decision, {keep: "decided", relabel: "decided", drop: "decided", skip: "skipped", reopen: "open"}[action]);
  notify(action === "reopen" ? "Open again." : `${shortName(row)}: ${decisionText(decision)}.`);
  outbox.put(request);
  if (action === "reopen") {
    drawCurrent();
    refreshAround().catch(failed);
  } else goOn(row);
}

const relabel = label => label === current?.given ? decide("keep") : decide("relabel", label);
const shortName = row => row.id.length > 40 ? `…${row.id.slice(-38)}` : row.id;

function undo() { outbox.put(signed("undo")); }

// Decides on all open samples of the group that are shown, then goes on to the next group.
async function decideGroup(action) {
  const indices = groupTargets(stretch?.group, action);
  if (!current || !indices.length) return;
  const row = stretch.group.rows.at(-1);
  current = null;
  enableButtons();
  notify(`${action === "keep" ? "Kept" : "Relabelled"} ${indices.length} samples. U takes all of it back.`);
  outbox.put({...signed(action), indices});
  stretch = null; // its group is out of date
  await outbox.settled();
  goOn({index: row.index, place: Infinity});
}

function signed(action) {
  const request = {event: randomName(), tab, action};
  if (reviewerName() !== null) request.reviewer = reviewerName();
  return request;
}

// Updates the state of a sample wherever this page stores it.
function note(index, decision, state, {opinions, disagrees} = {}) {
  const change = {decision, state};
  if (opinions) Object.assign(change, {opinions, disagrees});
  for (const row of stretch?.rows ?? []) if (row.index === index) Object.assign(row, change);
  if (current?.index === index) Object.assign(current, change);
  ready.get(index)?.details.then(details => Object.assign(details, change)).catch(() => {});
}

function saved(request, answer) {
  for (const row of answer.rows) note(row.index, row.decision, row.state, row);
  if (answer.conflict) notify(
    `${shortName(answer.row)} had been decided ${byWhom(answer.conflict).trim() || "elsewhere"} meanwhile (${decisionText(answer.conflict)}). ` +
    `What you decided (${decisionText(answer.row.decision)}) counts now; U takes it back.`, true);
  if (answer.action === "undo" && request.tab === tab) {
    notify(answer.rows.length > 1 ? `Taken back: ${answer.rows.length} samples.`
      : `Taken back: ${shortName(answer.row)} is ${decisionText(answer.row.decision)} again.`);
    show(answer.row.index);
  }
}

function refused(request, error) {
  notify(sentence(error.message), error.status !== 409);
  if (request.indices) start();
  if (request.index !== undefined) { ready.delete(request.index); show(request.index); }
}

const sentence = text => text[0].toUpperCase() + text.slice(1) + (text.endsWith(".") ? "" : ".");

function trouble(error, waiting) {
  byId("alarm").hidden = !error;
  if (!error) return;
  const kept = waiting ? ` ${waiting} decision${waiting > 1 ? "s are" : " is"} not saved yet; kept in this browser and sent when the server is back.` : "";
  const help = error.status === 403 ? " Open the address that the terminal shows." : error.status ? ""
    : ` Start it again: ${about?.review_command ?? "discrimloss review DIR"}`;
  byId("alarm").textContent = sentence(error.message) + kept + help;
}

function failed(error) {
  if (!(error instanceof RequestFailed)) throw error;
  if (error.isPassing) trouble(error, outbox?.size ?? 0);
  else if (error.status === 404 && wanted !== null) { wanted = null; start(); }
  else notify(sentence(error.message), true);
}

// -- other tabs ------------------------------------------------------------------------------------

async function poll() {
  try {
    if (!outbox.size) await lookAround(); // otherwise, decisions are saved first
  } catch (error) {
    failed(error);
  }
  setTimeout(poll, document.hidden ? 5 * POLL_MILLISECONDS : POLL_MILLISECONDS);
}

async function lookAround() {
  const state = await ask(`/api/state?since=${version}`);
  if (!outbox.size) trouble(null, 0);
  version = state.version;
  drawReviewers(state);
  if (!state.is_complete) ready.clear(); // there are too many changes to list
  const shown = state.changes.find(change => change.index === current?.index);
  const isNew = shown && shown.decision?.event !== current.decision?.event;
  for (const change of state.changes) note(change.index, change.decision, change.state, change);
  if (isNew) {
    const who = byWhom(shown.decision).replace(" by ", "") || "Another tab";
    notify(`${who} decided on this sample: ${decisionText(shown.decision)}.`, true);
    drawDecision(byId("decision"), shown.decision, tab, byWhom(shown.decision));
    drawOpinions(byId("opinions"), current);
    enableButtons();
  }
  if (state.changes.length) await refreshAround();
}

async function refreshAround() {
  const index = current?.index;
  if (index === undefined) return;
  const near = await fetchStretch(index);
  if (current?.index !== index) return; // the reviewer has moved on
  stretch = near;
  drawAround();
}

// -- keys and buttons ------------------------------------------------------------------------------

const KEYS = {
  k: () => decide("keep"),
  r: () => canRelabel() && relabel(current.suggested),
  Enter: () => canRelabel() && relabel(current.suggested),
  l: () => current && picker.open(current),
  "/": () => current && picker.open(current),
  d: () => decide("drop"),
  s: () => decide("skip"),
  u: undo,
  o: () => current?.decision && decide("reopen"),
  ArrowLeft: () => step(-1),
  ArrowRight: () => step(1),
  "?": () => byId("help").showModal(),
};

function pressed(event) {
  const isTyping = event.target.closest("input, select, textarea, dialog");
  if (isTyping || document.querySelector("dialog[open]")) return;
  const key = event.key.length === 1 ? event.key.toLowerCase() : event.key;
  const ofGroup = event.shiftKey && {r: "accept", k: "keep"}[key];
  if ((event.ctrlKey || event.metaKey) && key === "z" && !event.shiftKey && !event.altKey) {
    event.preventDefault();
    undo();
    return;
  }
  if (event.ctrlKey || event.metaKey || event.altKey) return;
  if (key === "Enter" && event.target.closest("button, a")) return;
  if (event.repeat && !key.startsWith("Arrow")) return; // a key held down decides once
  const choice = /^[0-9]$/.test(key) ? current?.choices[(Number(key) + 9) % 10] ?? undefined : undefined;
  const act = ofGroup ? () => decideGroup(ofGroup) : choice === undefined ? KEYS[key] : () => relabel(choice);
  if (!act) return;
  event.preventDefault();
  act();
}

function connect() {
  document.addEventListener("keydown", pressed);
  const clicks = {
    keep: KEYS.k, relabel: KEYS.r, pick: KEYS.l, drop: KEYS.d, skip: KEYS.s, undo: KEYS.u,
    reopen: KEYS.o, previous: KEYS.ArrowLeft, next: KEYS.ArrowRight, "help-button": KEYS["?"],
    "group-accept": () => decideGroup("accept"), "group-keep": () => decideGroup("keep"),
  };
  for (const [id, act] of Object.entries(clicks)) byId(id).addEventListener("click", act);
  byId("filter-verdict").addEventListener("change", event => setFilter({verdict: event.target.value, class: null}));
  byId("filter-class").addEventListener("change", event => setFilter({class: about.class_names[event.target.value] ?? null}));
  // A filter by problem shows all samples with the problem, whatever their verdicts.
  byId("filter-problem").addEventListener("change", event => setFilter({problem: event.target.value, ...event.target.value === "all" ? {} : {verdict: "all"}}));
  byId("filter-decision").addEventListener("change", event => setFilter({decision: event.target.value}));
  // A spot check is about all samples.
  byId("filter-order").addEventListener("change", event => setFilter({order: event.target.value, ...event.target.value === "random" ? {verdict: "all", class: null, problem: "all"} : {}}));
  byId("filters-button").addEventListener("click", ({target}) =>
    target.setAttribute("aria-expanded", String(document.querySelector("header").classList.toggle("open"))));
  for (const select of document.querySelectorAll("select")) select.addEventListener("change", () => select.blur());
  byId("filters").addEventListener("submit", event => event.preventDefault());
  window.addEventListener("beforeunload", event => { if (outbox.size) event.preventDefault(); });
}

function tabName() {
  try { // a reload is the same tab
    if (!sessionStorage.getItem("review-tab")) sessionStorage.setItem("review-tab", randomName());
    return sessionStorage.getItem("review-tab");
  } catch {
    return randomName();
  }
}

async function begin() {
  let state;
  try {
    about = await ask("/api/about");
    state = await ask("/api/state?since=0");
  } catch (error) {
    trouble(error, 0);
    setTimeout(begin, POLL_MILLISECONDS);
    return;
  }
  trouble(null, 0);
  tab = tabName();
  byId("title").textContent = `Review of ${about.name}`;
  byId("suggested-name").textContent = about.is_regression ? "predicted" : "suggested";
  byId("pick").firstChild.textContent = about.is_regression ? "Number… " : "Other… ";
  await knowReviewer(about);
  version = state.version;
  drawReviewers(state);
  picker = new Picker(about, relabel);
  outbox = new Outbox(about.audit, {onSaved: saved, onRefused: refused, onTrouble: trouble});
  connect();
  byId("why").open = matchMedia("(min-width: 801px)").matches; // a phone has no room for it
  wanted = readAddress(about, filter);
  drawFilters(about, filter);
  await start();
  poll();
}

begin();
