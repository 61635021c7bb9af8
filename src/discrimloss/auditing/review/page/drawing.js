// Draws the parts of the page. Labels, names and texts come from the data, so they are inserted as
// text, never as markup.

export const byId = id => document.getElementById(id);

export function element(tag, properties = {}, ...children) {
  const made = Object.assign(document.createElement(tag), properties);
  made.append(...children);
  return made;
}

const numbers = new Intl.NumberFormat("en", {maximumSignificantDigits: 6, useGrouping: false});

export const labelText = label =>
  label === null || label === undefined ? "–" : typeof label === "number" ? numbers.format(label) : label;

// A long name may break after a separator.
export const breakable = text => text.split(/(?<=[_./-])/).flatMap(part => [part, element("wbr")]);

const percent = share => share === null ? "unknown" : share >= 0.9995 ? "> 99.9 %" : share < 0.0005 ? "< 0.1 %"
  : `${(100 * share).toFixed(share > 0.99 || share < 0.01 ? 1 : 0)} %`;
const short = number => numbers.format(Number(number.toPrecision(3)));

export function decisionText(decision) {
  if (!decision) return "open";
  return {
    keep: "kept",
    relabel: `relabelled to ${labelText(decision.label)}`,
    drop: "dropped",
    skip: "skipped",
  }[decision.action];
}

const SMALL_PIXELS = 160;

// Loads a picture in advance. This element is later put into the page, so nothing is fetched twice.
export function makePicture(index) {
  const picture = new Image();
  picture.alt = "the sample";
  picture.ready = new Promise(resolve => {
    picture.addEventListener("load", () => {
      picture.classList.toggle("small", Math.max(picture.naturalWidth, picture.naturalHeight) <= SMALL_PIXELS);
      resolve(true);
    });
    picture.addEventListener("error", () => resolve(false));
  });
  picture.src = `/api/image/${index}`;
  return picture;
}

export function drawSample(place, details, picture) {
  const fields = details.fields?.filter(([, value]) => value !== details.id) ?? [];
  const isCaption = Boolean(picture) && fields.length <= 2;
  place.classList.toggle("picture", Boolean(picture) && details.text === null);
  place.scrollTop = 0;
  if (details.unreadable) {
    place.replaceChildren(element("p", {className: "problem", textContent: `This sample cannot be shown: ${details.unreadable}`}));
    return;
  }
  const parts = [];
  if (picture) parts.push(element("div", {className: "frame"}, picture));
  if (details.text !== null) {
    const more = details.text_left_out ? `\n… and ${details.text_left_out} more characters` : "";
    parts.push(element("div", {className: "text", textContent: details.text + more}));
  }
  if (isCaption) {
    const caption = fields.map(([name, value]) => `${name} ${value}`).join(" · ");
    if (caption) parts.push(element("p", {className: "faint caption", textContent: caption}));
  } else if (fields.length) {
    const rows = fields.map(([name, value]) => element("tr", {},
      element("th", {scope: "row", textContent: name}), element("td", {textContent: value})));
    parts.push(element("div", {className: "fields"}, element("table", {}, element("tbody", {}, ...rows))));
  }
  if (!parts.length) parts.push(element("p", {className: "problem", textContent: "There is nothing to show of this sample."}));
  place.replaceChildren(...parts);
}

export function drawFacts(place, row) {
  const facts = [
    element("span", {className: `badge ${row.verdict}`, textContent: row.verdict}),
    element("span", {textContent: `${percent(row.p_incorrect)} likely wrong`, title: "p_incorrect"}),
  ];
  if (row.average_loss !== null)
    facts.push(element("span", {textContent: `loss ${short(row.average_loss)}`, title: "average_loss"}));
  if (row.weight !== null)
    facts.push(element("span", {textContent: `weight ${short(row.weight)}`, title: "1 is neutral, large is distrusted"}));
  place.replaceChildren(...facts);
}

// Draws the evidence: sentences, problems of the data, and the most similar samples.
export function drawWhy(place, details, pictureOf, onChoose) {
  const {why = [], similar = [], problems = []} = details;
  place.hidden = !why.length && !problems.length;
  place.querySelector("#problems").replaceChildren(...problems.flatMap(({title, remark}) => [
    element("span", {className: "badge", textContent: remark ? `${title}: ${remark}` : title}), " "]));
  place.querySelector("#why-list").replaceChildren(...why.map(sentence => element("li", {textContent: sentence.replaceAll(" %", "\u00a0%")})));
  place.querySelector("#similar").replaceChildren(...similar.map(other => {
    const button = element("button", {type: "button", title: other.id});
    if (pictureOf) button.append(element("img", {alt: "", loading: "lazy", src: pictureOf(other.index)}));
    button.append(element("strong", {textContent: labelText(other.label)}), " ",
      element("span", {textContent: other.text ?? (pictureOf ? "" : other.id)}));
    button.addEventListener("click", () => onChoose(other.index));
    return button;
  }));
}

export function drawDecision(place, decision, ownTab, byOther) {
  if (!decision) return place.replaceChildren();
  const from = byOther || (decision.tab === ownTab ? "" : " elsewhere");
  place.replaceChildren("Decided" + from + ": ",
    element("span", {className: `badge ${decision.action}`, textContent: decisionText(decision)}));
}

function stripText({decision, suggested}) {
  if (!decision) return `→ ${labelText(suggested)}`;
  return decision.action === "relabel" ? `✓ ${labelText(decision.label)}` : decisionText(decision);
}

export function drawStrip(place, rows, current, pictureOf, onChoose) {
  place.replaceChildren(...rows.map(row => {
    const button = element("button", {
      type: "button", className: row.decision?.action ?? "", title: `${row.id}: ${decisionText(row.decision)}`,
    });
    if (row.index === current) button.setAttribute("aria-current", "true");
    if (pictureOf) button.append(element("img", {alt: "", loading: "lazy", src: pictureOf(row.index)}));
    button.append(
      element("span", {textContent: labelText(row.given)}),
      element("span", {textContent: stripText(row)}));
    button.addEventListener("click", () => onChoose(row.index));
    return button;
  }));
  const chosen = place.querySelector("[aria-current]");
  if (chosen) place.scrollLeft = chosen.offsetLeft - place.clientWidth / 2 + chosen.clientWidth / 2;
}
