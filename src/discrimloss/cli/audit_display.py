"""What `discrimloss audit` prints at the end."""

from __future__ import annotations

import shlex
from pathlib import Path
from typing import Any

from rich.console import Console
from rich.table import Table
from rich.text import Text

from discrimloss.auditing.directory import CLEANED, LEFT_OUT, REPORT, VERDICTS_CSV

LONGEST_CELL = 40


def print_audit(summary: dict[str, Any], out: Path) -> None:
    """Print what was found, the most suspicious samples, and what to do next."""
    console = Console(highlight=False)
    verdicts, samples = summary["verdicts"], summary["samples"]
    figures = Table(title="Audit", title_style="bold", show_header=False)
    figures.add_column("")
    figures.add_column("", justify="right", no_wrap=True)
    for words, value in (
        ("samples", f"{samples:,}"),
        ("wrong labels, estimated", _percent(summary)),
        ("called incorrect", _counted(verdicts["incorrect"], samples)),
        ("called hard", _counted(verdicts["hard"], samples)),
        ("seconds", f"{summary['seconds']:.0f}"),
    ):
        figures.add_row(words, value)
    console.print(figures)
    if summary["worst"]:
        console.print(_worst_table(summary["worst"]))
    for note in (*_left_out(summary, out), *summary["notes"]):
        console.print(f"Note: {note}", markup=False, soft_wrap=True)
    place = shlex.quote(str(out))
    for line in (
        f"Look at it:   {out / REPORT}",
        f"All samples:  {out / VERDICTS_CSV} (worst first)",
        f"Rows to keep: {out / CLEANED}",
        f"Next: discrimloss review {place}   goes through the suspicious samples, then",
        f"      discrimloss apply {place}    writes the corrected data.",
    ):
        console.print(line, markup=False, soft_wrap=True)


def _percent(summary: dict[str, Any]) -> str:
    rate, interval = summary["noise_estimated"], summary.get("noise_interval")
    if rate is None:
        return "not known"
    low_high = f" ({100 * interval[0]:.1f} to {100 * interval[1]:.1f})" if interval else ""
    return f"{100 * rate:.1f}{low_high} %"


def _counted(number: int, samples: int) -> str:
    return f"{number:,} ({100 * number / max(samples, 1):.1f} %)"


def _worst_table(worst: list[dict[str, Any]]) -> Table:
    table = Table(title=f"The {len(worst)} most suspicious", title_style="bold")
    for heading in ("id", "given label", "suggested label"):
        table.add_column(heading, overflow="fold")
    table.add_column("p incorrect", justify="right", no_wrap=True)
    for row in worst:
        cells = (_shown(row[name]) for name in ("id", "given_label", "suggested_label"))
        table.add_row(*cells, f"{row['p_incorrect']:.3f}")
    return table


def _shown(value: Any) -> Text:
    text = f"{value:.6g}" if isinstance(value, float) else str(value)
    text = " ".join(text.split())
    return Text(text if len(text) <= LONGEST_CELL else text[: LONGEST_CELL - 1] + "…")


def _left_out(summary: dict[str, Any], out: Path) -> list[str]:
    if not summary["left_out"]:
        return []
    why = "; ".join(f"{number:,}: {why}" for why, number in summary["left_out_why"].items())
    return [f"{summary['left_out']:,} could not be audited ({why}): see {out / LEFT_OUT}"]
