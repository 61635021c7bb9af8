// The table of suspicious samples: sorted, searched and filtered here, one page of rows at a time.

const table = JSON.parse(document.getElementById("samples").textContent);
const ROWS = 25, CLAMPED = 150, FIELDS = 5;
const section = document.getElementById("table");
const body = section.querySelector("tbody"), form = document.getElementById("table-filters");
const pager = section.querySelector(".pager"), enlarged = document.getElementById("enlarged");
const number = table.index.length;
const whole = new Intl.NumberFormat("en"), known = new Set(table.verdict);
const VERDICTS = ["incorrect", "undecided", "hard", "easy", "unseen"];
const ORDERS = { rank: "worst first", id: "sample", given: table.is_regression ? "target" : "given", suggested: table.is_regression ? "predicted" : "suggested", p: "P(wrong)", loss: "loss" };
const names = new Intl.Collator("en", { numeric: true });
let order = "rank", direction = 1, page = 0, chosen = [], haystacks = null;

function label(place) { return place < 0 ? "–" : table.labels[place]; }

// What a column is sorted by; regression targets are sorted as numbers.
const KEYS = {
  rank: (row) => row, p: (row) => table.p[row], loss: (row) => table.loss[row] ?? -Infinity,
  id: (row) => table.id[row], verdict: (row) => VERDICTS.indexOf(table.verdict[row]),
  given: (row) => value(table.given[row]), suggested: (row) => value(table.suggested[row]),
};
function value(place) { return table.is_regression && place >= 0 ? Number(table.labels[place].replaceAll(",", "")) : label(place); }

// Thousandths as the rest of the page writes them.
function percent(p) { return p < 0.5 ? "< 0.1 %" : p >= 999.5 ? "> 99.9 %" : `${(p / 10).toFixed(1)} %`; }

function element(tag, properties, ...children) {
  const made = Object.assign(document.createElement(tag), properties);
  made.append(...children);
  return made;
}

function matches(row, wanted) {
  return (!wanted.verdict || table.verdict[row] === wanted.verdict)
    && (wanted.given === "" || table.given[row] === Number(wanted.given))
    && (wanted.suggested === "" || table.suggested[row] === Number(wanted.suggested))
    && wanted.words.every((word) => haystacks[row].includes(word));
}

function choose() {
  const fields = form.elements;
  const wanted = {
    verdict: fields.verdict.value, given: fields.given?.value ?? "", suggested: fields.suggested?.value ?? "",
    words: fields.search.value.toLowerCase().split(/\s+/).filter(Boolean),
  };
  if (wanted.words.length) haystacks ??= table.index.map((_, row) => [
    table.id[row], label(table.given[row]), label(table.suggested[row]), table.text?.[row] ?? "", ...(table.fields?.[row] ?? []),
  ].join(" ").toLowerCase());
  chosen = [];
  for (let row = 0; row < number; row += 1) if (matches(row, wanted)) chosen.push(row);
  sort();
}

function sort() {
  const key = KEYS[order];
  if (order !== "rank" || direction < 0) chosen.sort((a, b) => {
    const first = key(a), second = key(b);
    const difference = typeof first === "string" ? names.compare(first, String(second)) : first - second;
    return direction * difference || a - b;
  });
  page = 0;
  draw();
}

function draw() {
  const pages = Math.max(1, Math.ceil(chosen.length / ROWS));
  body.replaceChildren(...chosen.slice(page * ROWS, (page + 1) * ROWS).map(drawRow));
  if (!chosen.length) body.append(element("tr", {}, element("td", { colSpan: 8, className: "content quiet", textContent: "No sample fits." })));
  document.getElementById("table-count").textContent = chosen.length === number ? `${whole.format(number)} samples` : `${whole.format(chosen.length)} of ${whole.format(number)} samples`;
  document.getElementById("table-page").textContent = `page ${whole.format(page + 1)} of ${whole.format(pages)}`;
  pager.hidden = pages < 2;
  pager.querySelector('[data-step="-1"]').disabled = page === 0;
  pager.querySelector('[data-step="1"]').disabled = page + 1 >= pages;
  section.querySelectorAll("thead th[data-key]").forEach((head) => {
    if (head.dataset.key === order) head.setAttribute("aria-sort", direction > 0 ? "ascending" : "descending");
    else head.removeAttribute("aria-sort");
  });
}

function cell(name, text, className = "") {
  const made = element("td", { textContent: text, className });
  made.dataset.name = name;
  return made;
}

function drawRow(row) {
  const aside = table.is_regression ? "number" : "";
  const made = element("tr", { className: `of-${table.verdict[row]}` },
    element("td", { className: "rank number", textContent: whole.format(row + 1) }),
    element("td", { className: "content" }, ...content(row)),
    cell(ORDERS.given, label(table.given[row]), aside), cell(ORDERS.suggested, label(table.suggested[row]), aside),
    cell("", table.verdict[row], "verdict"),
    cell("P(wrong)", percent(table.p[row]), "number"),
    cell("loss", table.loss[row] === null ? "–" : table.loss[row] < 1000 ? String(table.loss[row]) : whole.format(table.loss[row]), "number"));
  if (table.review) made.append(element("td", {}, reviewLink(row)));
  return made;
}

function reviewLink(row) {
  return element("a", { href: `${table.review}#verdict=all&sample=${table.index[row]}`, target: "_blank", rel: "noopener", textContent: "review" });
}

function content(row) {
  const parts = [], below = element("div", { className: "sample-id" }, element("span", { textContent: table.id[row] }));
  const picture = table.picture?.[row], text = table.text?.[row], fields = table.fields?.[row];
  if (picture) parts.push(pictureButton(row, picture));
  if (text) {
    const shown = element("p", { className: "text", dir: "auto", textContent: text });
    parts.push(shown);
    if (text.length > CLAMPED || text.split("\n").length > 2) below.append(" ", toggle((open) => shown.classList.toggle("open", open)));
  }
  if (fields) parts.push(...fieldParts(fields, below));
  return [...parts, below];
}

function fieldParts(fields, below) {
  const short = element("div", { textContent: fields.slice(0, FIELDS).map((value, place) => `${table.field_names[place]}: ${value}`).join(" · ") });
  if (fields.length <= FIELDS) return [short];
  const all = element("dl", { className: "fields", hidden: true });
  all.append(...fields.flatMap((value, place) => [element("dt", { textContent: table.field_names[place] }), element("dd", { textContent: value })]));
  below.append(" ", toggle((open) => { all.hidden = !open; short.hidden = open; }));
  return [short, all];
}

function toggle(change) {
  const button = element("button", { type: "button", className: "link", textContent: "more" });
  button.setAttribute("aria-expanded", "false");
  button.addEventListener("click", () => {
    const open = button.textContent === "more";
    button.textContent = open ? "less" : "more";
    button.setAttribute("aria-expanded", String(open));
    change(open);
  });
  return button;
}

function pictureButton(row, source) {
  const what = `Sample ${table.id[row]}, labelled ${label(table.given[row])}`;
  const picture = element("img", { src: source, alt: what, loading: "lazy", className: table.tiny ? "pixels" : "" });
  const button = element("button", { type: "button", className: "enlarge", title: "enlarge" }, picture);
  button.addEventListener("click", () => {
    const large = enlarged.querySelector("img");
    Object.assign(large, { src: source, alt: what, className: picture.className });
    enlarged.querySelector("p").textContent = `${table.id[row]}: given ${label(table.given[row])}, suggested ${label(table.suggested[row])}, ${table.verdict[row]}`;
    enlarged.showModal();
  });
  return button;
}

function fill(select, entries) { select.append(...entries.map(([name, key]) => new Option(name, key))); }

function counted(places) {
  const counts = new Map();
  places.forEach((place) => { if (place >= 0) counts.set(place, (counts.get(place) ?? 0) + 1); });
  return Array.from(counts, ([place, count]) => [`${label(place).slice(0, 60)} (${whole.format(count)})`, place]).sort((a, b) => names.compare(a[0], b[0]));
}

if (!table.is_regression) {
  fill(form.elements.given, counted(table.given));
  fill(form.elements.suggested, counted(table.suggested));
}
fill(form.elements.verdict, VERDICTS.filter((name) => known.has(name)).map((name) => [`${name} (${whole.format(table.verdict.filter((other) => other === name).length)})`, name]));
fill(form.elements.order, Object.entries(ORDERS).map(([key, name]) => [name, key]));
form.addEventListener("submit", (event) => event.preventDefault());
form.addEventListener("input", (event) => {
  if (event.target.name === "order") { order = event.target.value; direction = ["p", "loss"].includes(order) ? -1 : 1; }
  choose();
});
section.querySelectorAll("thead th[data-key]").forEach((head) => head.querySelector("button").addEventListener("click", () => {
  const key = head.dataset.key;
  direction = key === order ? -direction : (["p", "loss"].includes(key) ? -1 : 1);
  order = key;
  choose();
}));
pager.addEventListener("click", (event) => {
  const step = Number(event.target.dataset?.step ?? 0);
  if (!step) return;
  page += step;
  draw();
  section.scrollIntoView({ block: "start" });
});
enlarged.addEventListener("click", (event) => { if (event.target === enlarged) enlarged.close(); });
choose();
