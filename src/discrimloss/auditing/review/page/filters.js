// The filter of the samples. It is chosen at the top of the page and kept in the address, so that a
// reload shows the same samples.

import {byId} from "./drawing.js";
import {ORDER_NAMES} from "./groups.js";

const VERDICT_NAMES = {incorrect: "incorrect", undecided: "undecided", hard: "hard", easy: "easy", unseen: "not seen", all: "all"};
const STATES = ["all", "open", "decided", "skipped", "disagreed", "others"];

export function writeAddress(filter, sample) {
  const parts = new URLSearchParams({verdict: filter.verdict, decision: filter.decision});
  if (filter.class !== null) parts.set("class", filter.class);
  if (filter.problem !== "all") parts.set("problem", filter.problem);
  if (filter.order !== "worst") parts.set("order", filter.order);
  if (sample !== null) parts.set("sample", sample);
  history.replaceState(null, "", `#${parts}`);
}

// Sets the filter from the address, and returns the index of the first sample to show. null means
// the first open sample.
export function readAddress(about, filter) {
  const parts = new URLSearchParams(location.hash.slice(1));
  if (Object.hasOwn(VERDICT_NAMES, parts.get("verdict"))) filter.verdict = parts.get("verdict");
  else if (!about.verdict_counts.incorrect) filter.verdict = "all";
  if (STATES.includes(parts.get("decision"))) filter.decision = parts.get("decision");
  if (about.orders.includes(parts.get("order"))) filter.order = parts.get("order");
  filter.class = about.class_names.includes(parts.get("class")) ? parts.get("class") : null;
  const problem = parts.get("problem");
  if (about.problem_counts.some(entry => entry.problem === problem)) filter.problem = problem;
  return /^\d+$/.test(parts.get("sample") ?? "") ? Number(parts.get("sample")) : null;
}

export function drawFilters(about, filter) {
  byId("filter-order").replaceChildren(...about.orders.map(name => new Option(ORDER_NAMES[name], name)));
  byId("filter-order").value = filter.order;
  byId("filter-verdict").replaceChildren(...Object.entries(VERDICT_NAMES)
    .filter(([name]) => !["undecided", "unseen"].includes(name) || about.verdict_counts[name])
    .map(([name, text]) => new Option(`${text} (${about.verdict_counts[name]})`, name)));
  byId("filter-verdict").value = filter.verdict;
  byId("filter-class-label").hidden = about.is_regression;
  const counts = about.class_counts[filter.verdict];
  const chosen = about.class_names.indexOf(filter.class);
  // The values of the options are positions, because a class may have any name.
  byId("filter-class").replaceChildren(new Option("any", "-1"), ...counts
    .map((count, place) => [count, place])
    .filter(([count, place]) => count || place === chosen)
    .map(([count, place]) => new Option(`${about.class_names[place]} (${count})`, place)));
  byId("filter-class").value = String(chosen);
  byId("filter-problem-label").hidden = !about.problem_counts.length;
  byId("filter-problem").replaceChildren(new Option("any", "all"), ...about.problem_counts
    .map(({problem, title, samples}) => new Option(`${title} (${samples})`, problem)));
  byId("filter-problem").value = filter.problem;
  byId("filter-decision").value = filter.decision;
}
