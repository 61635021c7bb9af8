// Groups of samples: with the same class and suggestion, similar samples, or copies. One decision on
// a group applies to all of its open samples that are shown.

import {byId, decisionText, element, labelText} from "./drawing.js";

export const ORDER_NAMES = {
  worst: "worst first", random: "random (spot check)", class: "by class", similar: "similar together", duplicates: "duplicates together",
};

const isOpen = row => row.state === "open";
const canAccept = row => isOpen(row) && row.suggested !== null && row.suggested !== row.given;

// Returns the indices of the samples to which a decision on the group applies.
export const groupTargets = (group, action) =>
  (group?.rows ?? []).filter(action === "accept" ? canAccept : isOpen).map(row => row.index);

function groupTitle(order, {rows}) {
  const labels = new Set(rows.map(row => row.given));
  if (order === "class") return `${labelText(rows[0].given)} → ${labelText(rows[0].suggested)}`;
  if (order === "similar") return `${rows.length} similar samples`;
  return labels.size > 1 ? `${rows.length} copies with different labels` : `${rows.length} copies`;
}

export function drawGroup(order, group, current, {pictureOf, onChoose}) {
  const place = byId("group");
  place.hidden = !group;
  if (!group) return byId("group-members").replaceChildren();
  const open = group.rows.filter(isOpen).length;
  byId("group-title").textContent = groupTitle(order, group);
  byId("group-count").textContent = `group ${group.number} of ${group.groups}, ${open} of ${group.rows.length} open`;
  for (const [id, action, verb] of [["group-accept", "accept", "Relabel"], ["group-keep", "keep", "Keep"]]) {
    const number = groupTargets(group, action).length;
    byId(id).disabled = !number;
    byId(id).firstChild.textContent = `${verb} ${number}${action === "accept" ? " as suggested" : ""} `;
  }
  byId("group-members").replaceChildren(...group.rows.map(row => {
    const button = element("button", {
      type: "button", className: row.decision?.action ?? "", title: `${row.id}: ${decisionText(row.decision)}`,
    });
    if (row.index === current) button.setAttribute("aria-current", "true");
    if (pictureOf) button.append(element("img", {alt: "", loading: "lazy", src: pictureOf(row.index)}));
    else button.append(element("span", {className: "glimpse", textContent: row.glimpse}));
    const end = row.decision ? ` · ${decisionText(row.decision)}` : canAccept(row) ? ` → ${labelText(row.suggested)}` : "";
    button.append(element("span", {className: "labels", textContent: labelText(row.given) + end}));
    button.addEventListener("click", () => onChoose(row.index));
    return button;
  }));
  byId("group-members").querySelector("[aria-current]")?.scrollIntoView({block: "nearest", inline: "nearest"});
}
