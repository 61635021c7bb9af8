// The map of the data: points on a canvas, and the sample under the pointer.

const map = JSON.parse(document.getElementById("map-data").textContent);
const figure = document.getElementById("map"), canvas = figure.querySelector("canvas");
const shown = figure.querySelector(".map-sample"), legend = figure.querySelector(".map-legend");
const only = figure.querySelector(".only-class select"), place = figure.querySelector(".map-place");
const LARGEST = 1000, REACH = 16, TILE_SHOWN = 80;
const RAMP = [[68, 1, 84], [59, 82, 139], [33, 145, 140], [94, 201, 98], [253, 231, 37]];
const OTHER = "#8a8f98";
const dark = window.matchMedia("(prefers-color-scheme: dark)");
const number = map.x.length;
const verdictColours = new Map(map.verdicts), classColours = new Map(map.classes ?? []);
const ranks = map.value ? rankOf(map.value) : null;
let colouring = "label", group = null, width = 0, height = 0, kept = -1;

// Thousandths as the rest of the page writes them.
function percent(p) { return p < 0.5 ? "< 0.1 %" : p >= 999.5 ? "> 99.9 %" : `${(p / 10).toFixed(1)} %`; }

function rankOf(values) {
  const order = values.map((_, row) => row).sort((a, b) => values[a] - values[b]);
  const found = new Array(values.length);
  order.forEach((row, position) => { found[row] = position / Math.max(1, values.length - 1); });
  return found;
}

function ramp(fraction) {
  const position = fraction * (RAMP.length - 1), low = Math.min(Math.floor(position), RAMP.length - 2);
  const mixed = RAMP[low].map((from, channel) => Math.round(from + (RAMP[low + 1][channel] - from) * (position - low)));
  return `rgb(${mixed.join(" ")})`;
}

function colour(row) {
  if (colouring === "verdict") return verdictColours.get(map.verdict[row]);
  return ranks ? ramp(ranks[row]) : classColours.get(map.given[row]) ?? OTHER;
}

function belongs(row) {
  if (only.value !== "" && map.given[row] !== only.value) return false;
  if (group === null) return true;
  if (colouring === "verdict") return map.verdict[row] === group;
  return group === OTHER ? !classColours.has(map.given[row]) : map.given[row] === group;
}

function spot(row) { return [8 + (map.x[row] / LARGEST) * (width - 16), 8 + (1 - map.y[row] / LARGEST) * (height - 16)]; }

function draw() {
  width = place.clientWidth;
  height = Math.round(Math.min(560, Math.max(300, width * 0.62)));
  const sharpness = window.devicePixelRatio || 1;
  canvas.width = width * sharpness;
  canvas.height = height * sharpness;
  canvas.style.height = `${height}px`;
  const pen = canvas.getContext("2d");
  pen.scale(sharpness, sharpness);
  pen.clearRect(0, 0, width, height);
  const ink = window.getComputedStyle(document.documentElement).getPropertyValue("--ink").trim();
  const rows = map.x.map((_, row) => row);
  const layers = [rows.filter((row) => !belongs(row)), rows.filter((row) => belongs(row) && map.verdict[row] !== "incorrect"), rows.filter((row) => belongs(row) && map.verdict[row] === "incorrect")];
  const size = number > 1500 ? 2.6 : number > 300 ? 3.2 : 4.2;
  layers.forEach((layer, depth) => layer.forEach((row) => {
    const [x, y] = spot(row), isRinged = depth === 2;
    pen.globalAlpha = depth === 0 ? 0.08 : isRinged ? 1 : 0.6;
    pen.beginPath();
    pen.arc(x, y, isRinged ? size + 1 : size, 0, 7);
    pen.fillStyle = colour(row);
    pen.fill();
    if (!isRinged) return;
    pen.strokeStyle = ink;
    pen.lineWidth = 1.2;
    pen.stroke();
  }));
  pen.globalAlpha = 1;
}

function nearest(x, y) {
  let best = -1, least = REACH * REACH;
  for (let row = 0; row < number; row += 1) {
    if (!belongs(row)) continue;
    const [px, py] = spot(row), distance = (px - x) ** 2 + (py - y) ** 2;
    if (distance < least) { least = distance; best = row; }
  }
  return best;
}

function line(className, ...parts) {
  const made = document.createElement("p");
  made.className = className;
  made.append(...parts);
  return made;
}

function strong(text) {
  const made = document.createElement("strong");
  made.textContent = text;
  return made;
}

function show(row) {
  shown.hidden = row < 0;
  canvas.dataset.row = row;
  if (row < 0) return;
  const parts = [];
  if (map.atlas) parts.push(tile(row));
  if (map.text?.[row]) parts.push(line("", map.text[row]));
  parts.push(line("", map.value ? "target " : "given ", strong(map.given[row])));
  if (map.suggested[row] !== null && map.suggested[row] !== map.given[row]) parts.push(line("", map.value ? "predicted " : "suggested ", strong(map.suggested[row])));
  parts.push(line("quiet", `${map.verdict[row]}, P(wrong) ${percent(map.p[row])}`), line("quiet", map.id[row]));
  if (map.review) {
    const link = document.createElement("a");
    Object.assign(link, { href: `${map.review}#verdict=all&sample=${map.index[row]}`, target: "_blank", rel: "noopener", textContent: "review" });
    parts.push(line("", link));
  }
  shown.replaceChildren(...parts);
  const [x, y] = spot(row);
  shown.style.left = `${Math.max(0, Math.min(x + 14, width - shown.offsetWidth))}px`;
  const below = y + 14;
  shown.style.top = `${below + shown.offsetHeight > height ? Math.max(0, y - 14 - shown.offsetHeight) : below}px`;
}

function tile(row) {
  const made = document.createElement("div"), scale = TILE_SHOWN / map.tile;
  made.className = "tile";
  made.style.backgroundImage = `url(${map.atlas})`;
  made.style.backgroundSize = `${map.across * map.tile * scale}px`;
  made.style.backgroundPosition = `${-(row % map.across) * TILE_SHOWN}px ${-Math.floor(row / map.across) * TILE_SHOWN}px`;
  return made;
}

function at(event) {
  const box = canvas.getBoundingClientRect();
  return nearest(event.clientX - box.left, event.clientY - box.top);
}

function keep(row) {
  kept = row;
  shown.classList.toggle("kept", row >= 0);
  show(row);
}

function drawLegend() {
  if (colouring === "label" && ranks) {
    const bar = document.createElement("span");
    bar.className = "ramp";
    bar.style.background = `linear-gradient(90deg, ${RAMP.map((_, step) => ramp(step / (RAMP.length - 1))).join(", ")})`;
    const least = map.value.reduce((a, b) => Math.min(a, b)), most = map.value.reduce((a, b) => Math.max(a, b));
    legend.replaceChildren(String(least), bar, String(most));
    return;
  }
  const entries = colouring === "verdict" ? map.verdicts : map.classes.slice();
  if (colouring === "label" && map.given.some((name) => !classColours.has(name))) entries.push(["other classes", OTHER]);
  legend.replaceChildren(...entries.map(([name, shade]) => {
    const button = document.createElement("button"), swatch = document.createElement("span");
    const key = shade === OTHER && colouring === "label" ? OTHER : name;
    button.type = "button";
    button.setAttribute("aria-pressed", String(group === null || group === key));
    swatch.className = "swatch";
    swatch.style.background = shade;
    button.append(swatch, name);
    button.addEventListener("click", () => { group = group === key ? null : key; keep(-1); drawLegend(); draw(); });
    return button;
  }));
}

canvas.addEventListener("pointermove", (event) => { if (kept < 0 && event.pointerType === "mouse") show(at(event)); });
canvas.addEventListener("pointerleave", () => { if (kept < 0) show(-1); });
canvas.addEventListener("click", (event) => { const row = at(event); keep(row === kept ? -1 : row); });
figure.querySelectorAll("[data-colour]").forEach((button) => button.addEventListener("click", () => {
  colouring = button.dataset.colour;
  group = null;
  figure.querySelectorAll("[data-colour]").forEach((other) => other.setAttribute("aria-pressed", String(other === button)));
  drawLegend();
  draw();
}));
if (map.classes && new Set(map.given).size > map.classes.length) {
  figure.querySelector(".only-class").hidden = false;
  only.append(...Array.from(new Set(map.given)).sort().map((name) => new Option(name, name)));
  only.addEventListener("change", () => { keep(-1); draw(); });
}
dark.addEventListener("change", draw);
let waiting, before = window.innerWidth;
window.addEventListener("resize", () => {
  if (window.innerWidth === before) return;
  before = window.innerWidth;
  window.clearTimeout(waiting);
  waiting = window.setTimeout(() => { keep(-1); draw(); }, 200);
});
drawLegend();
draw();
