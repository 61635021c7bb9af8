// Several reviewers: the name of this reviewer, the decisions of each, and disagreements.

import {byId, decisionText, element} from "./drawing.js";

const KEY = "discrimloss-reviewer";
let name = null, isShared = false;

export const reviewerName = () => name;

// If other machines can reach the page, every decision needs the name of a reviewer.
export async function knowReviewer(about) {
  isShared = about.is_shared;
  if (!isShared) return;
  byId("reviewer").hidden = false;
  for (const value of ["disagreed", "others"]) byId("filter-decision").querySelector(`[value=${value}]`).hidden = false;
  try { name = localStorage.getItem(KEY); } catch { /* no storage here: it is asked for each time */ }
  byId("reviewer").addEventListener("click", askName);
  if (name) drawName();
  else await askName();
}

function askName() {
  const dialog = byId("who"), input = byId("who-input");
  input.value = name ?? "";
  dialog.showModal();
  return new Promise(resolve => {
    dialog.addEventListener("close", () => {
      const typed = input.value.trim().slice(0, 40);
      if (typed) name = typed;
      if (!name) return askName().then(resolve);
      try { localStorage.setItem(KEY, name); } catch { /* it is asked for each time */ }
      drawName();
      resolve();
    }, {once: true});
  });
}

const drawName = () => { byId("reviewer").textContent = name; };

// Draws the number of decisions of each reviewer, from a response of /api/state.
export function drawReviewers({reviewers, disagreements}) {
  if (!isShared) return;
  const parts = Object.entries(reviewers).map(([who, number]) => `${who} ${number}`);
  if (disagreements) parts.push(`${disagreements} disagreement${disagreements > 1 ? "s" : ""}`);
  byId("reviewers").textContent = parts.join(" · ");
  byId("reviewers").classList.toggle("warning", disagreements > 0);
}

export const byWhom = decision =>
  decision?.reviewer && decision.reviewer !== name ? ` by ${decision.reviewer}` : "";

// Draws the decision of each reviewer on a sample.
export function drawOpinions(place, {opinions = [], disagrees}) {
  place.replaceChildren(...opinions.map(opinion => element("span", {},
    `${opinion.reviewer ?? "no name"}: `,
    element("span", {className: `badge ${opinion.action}`, textContent: decisionText(opinion)}))));
  if (disagrees) place.prepend(element("strong", {textContent: "Disagreement. The last decision counts."}));
}
