// The classes of the number keys. Up to ten classes have the same keys for every sample. With more
// classes, the keys depend on the given class. If they change, the page says so and marks the new
// classes.

import {byId, element} from "./drawing.js";

let before = null; // the classes of the keys for the previous sample

export const keyOf = place => String((place + 1) % 10);

export function drawChoices(row, onChoose) {
  const changed = before !== null && before.join("\n") !== row.choices.join("\n");
  byId("choices-note").textContent = changed ? `The number keys changed: likely classes instead of ${row.given}.` : "";
  byId("choices").classList.toggle("changed", changed);
  const keys = row.choices.map((name, place) => [name, place]).filter(([name]) => name !== null);
  if (keys.some(([name]) => name === "0")) keys.unshift(...keys.splice(keys.findIndex(([name]) => name === "0"), 1));
  byId("choices").replaceChildren(...keys.map(([name, place]) => {
    const kind = name === row.given ? "given" : name === row.suggested ? "first" : "";
    const isNew = changed && before[place] !== name;
    const button = element("button", {type: "button", className: `${kind}${isNew ? " new" : ""}`, title: kind === "given" ? `${name}: the given label, kept` : name},
      element("kbd", {textContent: keyOf(place)}), element("span", {textContent: name}));
    button.addEventListener("click", () => onChoose(name));
    return button;
  }));
  before = row.choices;
}
