"""How Python and notebooks display an `AuditResult`."""

from __future__ import annotations

from html import escape
from typing import TYPE_CHECKING, Any

from discrimloss.auditing.outputs import worst_rows
from discrimloss.auditing.report.wording import percent, percent_range
from discrimloss.judging.verdicts import LABELS, UNSEEN

if TYPE_CHECKING:
    from discrimloss.auditing.result import AuditResult

ROWS_IN_TEXT, ROWS_IN_HTML = 3, 10
CLASSES_NAMED = 6
LONGEST_CELL = 60


def result_text(result: AuditResult) -> str:
    """Return a few lines: the data, the result, the most suspicious labels, and the notes."""
    lines = [f"AuditResult({_subject(result)})", f"  {_headline(result)}"]
    for row in worst_rows(result.verdicts, ROWS_IN_TEXT):
        if row["verdict"] == "incorrect":
            labels = f"{_shown(row['given_label'])} -> {_shown(row['suggested_label'])}"
            lines.append(f"  {_shown(row['id'])}: {labels} (p {row['p_incorrect']:.3f})")
    for entry in result.summary.get("health", ()):
        lines.append(f"  {entry['title']}: {entry['samples']:,}")
    lines += [f"  note: {note}" for note in result.notes]
    if result.directory is not None:
        lines.append(f"  in {result.directory}")
    return "\n".join(lines)


def result_html(result: AuditResult) -> str:
    """Return HTML: the data, the result, and a table of the most suspicious samples."""
    heading = ("id", "given label", "suggested label", "verdict", "p incorrect")
    rows = [
        (
            _shown(row["id"]),
            _shown(row["given_label"]),
            _shown(row["suggested_label"]),
            row["verdict"],
            f"{row['p_incorrect']:.3f}",
        )
        for row in worst_rows(result.verdicts, ROWS_IN_HTML)
    ]
    head = "".join(f"<th>{name}</th>" for name in heading)
    body = "".join(
        f"<tr>{''.join(f'<td>{escape(cell)}</td>' for cell in row)}</tr>" for row in rows
    )
    notes = "".join(f"<li>{escape(note)}</li>" for note in result.notes)
    return (
        f"<div><p><b>Audit</b> of {escape(_subject(result))}<br>{escape(_headline(result))}</p>"
        f"<table><thead><tr>{head}</tr></thead><tbody>{body}</tbody></table>"
        f"{f'<ul>{notes}</ul>' if notes else ''}</div>"
    )


def _subject(result: AuditResult) -> str:
    names = result.class_names
    if not names:
        return f"{len(result):,} samples, regression"
    more = "" if len(names) <= CLASSES_NAMED else ", …"
    named = ", ".join(names[:CLASSES_NAMED])
    return f"{len(result):,} samples, {len(names)} classes: {named}{more}"


def _headline(result: AuditResult) -> str:
    counts = result.verdicts.counts
    found = ", ".join(f"{counts[name]:,} {name}" for name in reversed(LABELS[:UNSEEN]))
    if result.noise_rate is None:
        return f"the fraction of wrong labels is unknown; {found}"
    rate = percent(result.noise_rate)
    interval = result.noise_interval
    within = f" ({percent_range(interval)})" if interval is not None else ""
    given = ", as given" if "noise_given" in result.summary else ""
    return f"about {rate} wrong labels{within}{given}; {found}"


def _shown(value: Any) -> str:
    text = f"{value:.6g}" if isinstance(value, float) else str(value)
    text = " ".join(text.split())
    return text if len(text) <= LONGEST_CELL else text[: LONGEST_CELL - 1] + "…"
