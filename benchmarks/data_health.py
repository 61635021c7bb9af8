"""What the health of the data finds, beside cleanlab's Datalab on the same features.

    python -m benchmarks.data_health --data DIR                        # results/data_health.md
    python -m benchmarks.data_health --data DIR --rows 500 --audits 0  # a quick look

DIR holds ``texts/agnews_7600.csv.gz``, ``texts/trec50.csv.gz`` (columns ``text`` and ``label``),
``tables/covertype.csv.gz`` (features and ``target``) and ``images/usps.npz`` (``images`` and
``labels``). Into each set go exact copies, half of them with another label, near copies, and
outliers, at random places. Both tools get the points of
`discrimloss.auditing.health.features.comparable_points`.
"""

from __future__ import annotations

import argparse
import json
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import torch

import discrimloss.auditing.run as audit_run
from discrimloss import audit
from discrimloss.auditing.health.check import check_health, compare_samples
from discrimloss.auditing.health.data_health import DataHealth
from discrimloss.auditing.health.features import comparable_points
from discrimloss.auditing.out_of_fold.choose import ComparedInputs, choose_candidates
from discrimloss.auditing.sources.base import AuditSource, SourceOptions
from discrimloss.auditing.sources.open_source import open_data
from discrimloss.training.records import versions

RESULTS = Path(__file__).parent / "results"
TEXTS = ("agnews_7600", "trec50")
SETS = (*TEXTS, "covertype", "usps")
INJECTED = 40
"""Number of exact copies, and of near copies, in each set."""
OUTLIERS = 10
LETTERS = np.array(list("bcdfghjklmnpqrstvwxz"))
STRANGE = (
    "SELECT id, name FROM users WHERE active = 1 ORDER BY created_at DESC LIMIT 100;",
    "Die Katze sitzt auf der Fensterbank und wartet geduldig auf ihr Abendessen.",
    "0.123 0.998 1.442 7.310 0.002 5.551 3.141 2.718 9.999 4.321",
    "for i in range(10): print(f'{i:>4} {i**2:>8}')",
    "今日はとても天気がいいので、公園を散歩しました。",
)


def read_rows(data: Path, name: str, rows: int) -> tuple[Any, pd.Series]:
    """Return inputs and labels of some rows, drawn at random."""
    if name == "usps":
        kept = np.load(data / "images" / "usps.npz")
        chosen = np.random.default_rng(0).permutation(len(kept["labels"]))[:rows]
        return kept["images"][chosen], pd.Series(kept["labels"][chosen])
    folder, label = ("texts", "label") if name in TEXTS else ("tables", "target")
    frame = pd.read_csv(data / folder / f"{name}.csv.gz", keep_default_na=name not in TEXTS)
    frame = frame.sample(min(rows, len(frame)), random_state=0).reset_index(drop=True)
    inputs = frame[["text"]] if name in TEXTS else frame.drop(columns=label)
    return inputs, frame[label]


def near_copy(inputs: Any, row: int, random: np.random.Generator) -> Any:
    """Return a sample with a small change: a dropped word, rounded numbers, brighter pixels."""
    if isinstance(inputs, np.ndarray):
        changed = inputs[row].astype(np.float64) * 1.02 + random.normal(0, 1.5, inputs[row].shape)
        return np.clip(changed, 0, 255).round().astype(np.uint8)
    changed = inputs.iloc[row].copy()
    if "text" in inputs:
        words = changed["text"].split()
        del words[random.integers(len(words))]
        changed["text"] = " ".join(words)
        return changed
    for column in inputs.columns[:10]:
        changed[column] += random.normal(0, 0.01) * inputs[column].std()
    return changed


def outlier(inputs: Any, row: int, number: int, random: np.random.Generator) -> Any:
    """Return an outlier: a text in another language or code, values out of range, noise."""
    if isinstance(inputs, np.ndarray):
        noise = random.integers(0, 256, inputs[row].shape, dtype=np.uint8)
        stripes = np.where(np.arange(inputs.shape[1]) % (number + 2) < 2, 255, 0).astype(np.uint8)
        forms = (noise, 255 - inputs[row], np.broadcast_to(stripes, noise.shape), noise // 2)
        return forms[number % len(forms)].astype(np.uint8)
    changed = inputs.iloc[row].copy()
    if "text" in inputs:
        if number < len(STRANGE):
            changed["text"] = STRANGE[number]
            return changed
        lengths = random.integers(3, 9, random.integers(8, 30))
        changed["text"] = " ".join("".join(random.choice(LETTERS, size)) for size in lengths)
        return changed
    for column in random.choice(inputs.columns[:10], 4, replace=False):
        changed[column] += random.choice([-1, 1]) * 8 * inputs[column].std()
    return changed


def injected(inputs: Any, labels: pd.Series) -> tuple[Any, pd.Series, dict[str, set[int]]]:
    """Return the samples with copies and outliers, in random order, and where these are."""
    random = np.random.default_rng(1)
    number = len(labels)
    rows = random.permutation(number)
    exact, near = rows[:INJECTED], rows[INJECTED : 2 * INJECTED]
    out = rows[2 * INJECTED : 2 * INJECTED + OUTLIERS]
    names = np.array(sorted(labels.unique()))
    new_labels = []
    for place, row in enumerate(exact):
        others = names[names != labels[row]]
        new_labels.append(random.choice(others) if place % 2 else labels[row])
    new_labels += [labels[row] for row in (*near, *out)]
    changed = [near_copy(inputs, row, random) for row in near]
    changed += [outlier(inputs, row, place, random) for place, row in enumerate(out)]
    if isinstance(inputs, np.ndarray):
        everything: Any = np.concatenate([inputs, inputs[exact], np.stack(changed)])
    else:
        everything = pd.concat([inputs, inputs.iloc[exact], pd.DataFrame(changed)])
    order = random.permutation(number + 2 * INJECTED + OUTLIERS)
    place = np.empty(len(order), np.int64)
    place[order] = np.arange(len(order))
    where = {
        "exact": {int(place[number + i]) for i in range(INJECTED)},
        "conflict": {int(place[number + i]) for i in range(1, INJECTED, 2)},
        "near": {int(place[number + INJECTED + i]) for i in range(INJECTED)},
        "outlier": {int(place[number + 2 * INJECTED + i]) for i in range(OUTLIERS)},
        "original": {int(place[row]) for row in (*exact, *near)},
    }
    all_labels = pd.concat([labels, pd.Series(new_labels)]).to_numpy()[order]
    if isinstance(everything, np.ndarray):
        return everything[order], pd.Series(all_labels), where
    return everything.iloc[order].reset_index(drop=True), pd.Series(all_labels), where


def opened(inputs: Any, labels: pd.Series) -> AuditSource:
    given = "class " + labels.astype(str)
    if isinstance(inputs, np.ndarray):
        return open_data((inputs, given.to_numpy()), SourceOptions("", regression=False), None)
    frame = inputs.assign(given_class=given)
    text = "text" if "text" in inputs else None
    return open_data(frame, SourceOptions("", "given_class", text), None)


def of_ours(source: AuditSource, inputs: ComparedInputs) -> tuple[DataHealth, Any, float]:
    started = time.process_time()
    compared = compare_samples(source, inputs.values, inputs.by_angle)
    health = check_health(source, compared, inputs.values)
    seconds = time.process_time() - started
    return health, comparable_points(inputs.values, inputs.by_angle).values, seconds


def of_datalab(source: AuditSource, points: Any) -> tuple[dict[str, set[int]], bool, float]:
    """Return the samples with each issue, whether the order is an issue, and CPU seconds."""
    from cleanlab import Datalab

    started = time.process_time()
    lab = Datalab({"label": source.target.tolist()}, label_name="label", verbosity=0)
    kinds = ("near_duplicate", "outlier", "non_iid", "class_imbalance")
    lab.find_issues(features=points, issue_types={kind: {} for kind in kinds})
    issues = lab.get_issues()
    found = {
        kind: set(np.flatnonzero(issues[f"is_{kind}_issue"]).tolist())
        for kind in ("near_duplicate", "outlier", "class_imbalance")
    }
    is_ordered = bool(issues["is_non_iid_issue"].any())
    return found, is_ordered, time.process_time() - started


def compared_on(data: Path, name: str, rows: int) -> dict[str, Any]:
    """Return what both tools find in one set."""
    inputs, labels, where = injected(*read_rows(data, name, rows))
    source = opened(inputs, labels)
    made = _inputs(source)
    health, points, seconds = of_ours(source, made)
    theirs, is_ordered, their_seconds = of_datalab(source, points)
    copies = set(health["exact_duplicates"].index) | set(health["near_duplicates"].index)
    in_order = np.argsort(labels.astype(str).to_numpy(), kind="stable")
    ordered = inputs[in_order] if isinstance(inputs, np.ndarray) else inputs.iloc[in_order]
    sorted_source = opened(
        ordered if isinstance(ordered, np.ndarray) else ordered.reset_index(drop=True),
        labels.iloc[in_order].reset_index(drop=True),
    )
    sorted_health, sorted_points, _ = of_ours(sorted_source, _inputs(sorted_source))
    _, theirs_sorted, _ = of_datalab(sorted_source, sorted_points)
    return {
        "samples": len(labels),
        "ours": {
            **_counts(copies, set(health["outliers"].index), where),
            "conflict": len(set(health["conflicting_duplicates"].index) & where["conflict"]),
            "rare": len(health["rare_classes"]),
            "order": len(health["row_order"]) > 0,
            "order_if_sorted": len(sorted_health["row_order"]) > 0,
            "seconds": seconds,
        },
        "datalab": {
            **_counts(theirs["near_duplicate"], theirs["outlier"], where),
            "conflict": None,
            "rare": len(theirs["class_imbalance"]),
            "order": is_ordered,
            "order_if_sorted": theirs_sorted,
            "seconds": their_seconds,
        },
    }


def _inputs(source: AuditSource) -> ComparedInputs:
    if source.kind == "images":
        inputs: Any = source.task().train.inputs
        return ComparedInputs(inputs.tensor.numpy())
    return choose_candidates(source, None).inputs


def _counts(copies: set[int], outliers: set[int], where: dict[str, set[int]]) -> dict[str, int]:
    return {
        "exact": len(copies & where["exact"]),
        "near": len(copies & where["near"]),
        "other_copies": len(copies - where["exact"] - where["near"] - where["original"]),
        "outlier": len(outliers & where["outlier"]),
        "other_outliers": len(outliers - where["outlier"]),
    }


def audit_cost(data: Path, name: str, rows: int) -> dict[str, float]:
    """Return CPU seconds of an audit, and of its parts for health and evidence."""
    inputs, labels, _ = injected(*read_rows(data, name, rows))
    plain = audit_run.inspect_samples
    spent = 0.0

    def measured(*arguments: Any, **options: Any) -> Any:
        nonlocal spent
        started = time.process_time()
        found = plain(*arguments, **options)
        spent = time.process_time() - started
        return found

    audit_run.inspect_samples = measured
    try:
        started = time.process_time()
        frame = inputs.assign(given_class="class " + labels.astype(str))
        audit(frame, "given_class", text="text" if name in TEXTS else None, progress=False)
        seconds = time.process_time() - started
    finally:
        audit_run.inspect_samples = plain
    return {"audit": seconds - spent, "health": spent}


def page(results: dict[str, Any]) -> str:
    """Return the results as Markdown."""
    explained = (
        f"`{results['command']}`; {results['versions']}. Among the rows of each set are {INJECTED} "
        f"exact copies (half of them with another label), {INJECTED} near copies and {OUTLIERS} "
        "outliers, at random places. Both tools get the same points and have their defaults. "
        "*besides*: samples that are flagged and were not injected; TREC has near copies of its "
        "own. *order*: whether an order is reported of shuffled rows, and of rows sorted by class."
    )
    headings = (
        *("set", "tool", "exact", "near", "besides", "other label", "outliers", "besides"),
        *("in rare classes", "order, shuffled / sorted", "CPU seconds"),
    )
    lines = ["# Health of the data, beside Datalab", "", explained, ""]
    lines += [f"| {' | '.join(headings)} |", "|---|---|--:|--:|--:|--:|--:|--:|--:|---|--:|"]
    for name, found in results["sets"].items():
        for tool in ("ours", "datalab"):
            one = found[tool]
            conflict = "–" if one["conflict"] is None else f"{one['conflict']} of {INJECTED // 2}"
            order = " / ".join("yes" if one[key] else "no" for key in ("order", "order_if_sorted"))
            cells = (
                f"{name} ({found['samples']:,})",
                "discrimloss" if tool == "ours" else "Datalab",
                *(one[key] for key in ("exact", "near", "other_copies")),
                conflict,
                *(one[key] for key in ("outlier", "other_outliers", "rare")),
                order,
                f"{one['seconds']:.1f}",
            )
            lines.append(f"| {' | '.join(map(str, cells))} |")
    lines += ["", "What health and evidence add to an audit, in CPU seconds:", ""]
    lines += ["| set | audit without | health and evidence | more |", "|---|--:|--:|--:|"]
    for name, cost in results["costs"].items():
        more = cost["health"] / cost["audit"]
        lines.append(
            f"| {name} | {cost['audit']:.1f} | {cost['health']:.1f} | {100 * more:.0f} % |"
        )
    return "\n".join(lines) + "\n"


def main(arguments: Sequence[str] | None = None) -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--data", type=Path, required=True)
    parser.add_argument("--rows", type=int, default=2500)
    parser.add_argument("--audits", type=int, default=3, help="sets of which audits are timed")
    parser.add_argument("--out", type=Path, default=RESULTS / "data_health")
    options = parser.parse_args(arguments)
    torch.set_num_threads(1)
    found = {name: compared_on(options.data, name, options.rows) for name in SETS}
    costs = {name: audit_cost(options.data, name, options.rows) for name in SETS[: options.audits]}
    results = {
        "command": f"python -m benchmarks.data_health --data DIR --rows {options.rows}",
        "versions": ", ".join(f"{name} {number}" for name, number in versions().items()),
        "sets": found,
        "costs": costs,
    }
    text = page(results)
    options.out.with_suffix(".json").write_text(json.dumps(results, indent=1) + "\n")
    options.out.with_suffix(".md").write_text(text)
    print(text)


if __name__ == "__main__":
    main()
