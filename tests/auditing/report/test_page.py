"""The page: one file, nothing from elsewhere, every text escaped, no longer for more samples."""

import re
from dataclasses import replace
from html.parser import HTMLParser
from pathlib import Path
from typing import Any

import pytest
from report_runs import NASTY, made_run, nasty_view, picture_view

from discrimloss.auditing.report.contents import ReportContents, ReportRun
from discrimloss.auditing.report.gallery import (
    SIDE,
    View,
    choose_gallery,
    clue_columns_first,
    format_number,
    thumbnail,
)
from discrimloss.auditing.report.page import render, safe_json, write_report
from discrimloss.auditing.report.wording import columns_text
from discrimloss.auditing.sources.contents import SampleView


class Elements(HTMLParser):
    """What a browser would find in a page."""

    def __init__(self, page: str) -> None:
        super().__init__(convert_charrefs=True)
        self.tags: list[tuple[str, dict[str, str | None]]] = []
        self.texts: list[str] = []
        self._in: list[str] = []
        self.feed(page)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.append((tag, dict(attrs)))
        self._in.append(tag)

    def handle_endtag(self, tag: str) -> None:
        if tag in self._in:
            while self._in.pop() != tag:
                pass

    def handle_data(self, data: str) -> None:
        if not {"script", "style"} & set(self._in):
            self.texts.append(data)

    def named(self, tag: str) -> list[dict[str, str | None]]:
        return [attributes for name, attributes in self.tags if name == tag]


@pytest.fixture
def no_vega(monkeypatch: pytest.MonkeyPatch) -> None:
    """Its megabyte is the same on every page."""
    monkeypatch.setattr("discrimloss.auditing.report.page.vega_script", lambda: "")


def with_gallery(run: ReportRun, view: View | None = None) -> ReportRun:
    assert run.samples is not None
    return replace(run, gallery=choose_gallery(run.samples, view))


def page_of(*runs: ReportRun, title: str = "A report", **changes: Any) -> str:
    return render(ReportContents(title, runs, **changes))


def test_the_page_is_one_file_that_loads_nothing(tmp_path: Path) -> None:
    path = tmp_path / "report.html"
    write_report(ReportContents("A report", (with_gallery(made_run(), picture_view),)), path)
    assert [file.name for file in tmp_path.iterdir()] == ["report.html"]
    page = path.read_text(encoding="utf-8")
    elements = Elements(page)
    loaded = [
        value
        for _, attributes in elements.tags
        for name, value in attributes.items()
        if name in ("src", "href", "srcset", "action", "poster", "data")
    ]
    assert loaded
    assert all(str(value).startswith(("data:", "#")) for value in loaded)
    assert not re.search(
        r"@import|url\((?!['\"]?data:)", re.findall(r"<style>.*?</style>", page, re.S)[0]
    )
    # The browser is told to load nothing, whatever else is in the page.
    policy = next(m for m in elements.named("meta") if "http-equiv" in m)["content"]
    assert policy is not None
    assert policy.startswith("default-src 'none';")
    assert "http" not in policy
    assert 800_000 < len(page) < 1_500_000  # Vega is inside
    assert page.count("window.vegaEmbed=") == 1


@pytest.mark.usefixtures("no_vega")
def test_cards_of_rows_begin_with_the_columns_that_say_why() -> None:
    view = SampleView(fields=(("Name", "x"), ("Age", "3"), ("Ag", "4"), ("Size", "9")))
    clues = ("Size is 9; this value occurs in 90 % ...", "Ag is 4; values from 1 to 5 occur ...")
    shown = clue_columns_first(view, clues)
    assert [name for name, _ in shown.fields] == ["Size", "Ag", "Name", "Age"]
    earlier = clue_columns_first(view, ("Age = 3 (1 to 5: ...)",))
    assert earlier.fields[0][0] == "Age"
    assert clue_columns_first(SampleView(text="words"), clues).text == "words"


def test_texts_from_data_are_escaped_everywhere() -> None:
    names = (NASTY, f"{NASTY}2", "{{ 7 * 7 }}", "%{x}")
    run = made_run(class_names=names, name=NASTY, notes=(NASTY,))
    assert run.samples is not None
    run.samples["id"] = [f"{NASTY}{row}" for row in range(len(run.samples))]
    page = page_of(with_gallery(run, nasty_view), title=NASTY, subtitle=NASTY)
    elements = Elements(page)
    # Ours, the data and Vega: none came in with the labels.
    assert len(elements.named("script")) == 3
    assert not elements.named("b")
    assert NASTY in elements.texts
    figures = re.search(r'id="figures">(.*?)</script>', page, re.S)
    assert figures is not None
    assert "<" not in figures[1]


def test_json_cannot_end_its_script() -> None:
    assert "</" not in safe_json({"a": "</script>", "b": "<!--"})
    with pytest.raises(ValueError, match="JSON"):
        safe_json(float("nan"))


@pytest.mark.usefixtures("no_vega")
def test_the_page_does_not_grow_with_the_samples() -> None:
    few, many = (len(page_of(with_gallery(made_run(n, epochs=3)))) for n in (5_000, 50_000))
    assert many < 1.05 * few


@pytest.mark.usefixtures("no_vega")
def test_headlines_and_reasons_are_on_the_page() -> None:
    run = with_gallery(made_run(epochs=1))
    assert run.samples is not None
    texts = " ".join(Elements(page_of(run)).texts)
    incorrect = int((run.samples["verdict"] == "incorrect").sum())
    assert re.search(rf"incorrect\s+{incorrect}\s", texts)
    assert "Left out: this chart needs at least two epochs." in texts
    assert "not finished" not in texts
    unfinished = replace(run, samples=None, gallery=None, is_finished=False)
    texts = " ".join(Elements(page_of(unfinished)).texts)
    assert "This run is not finished" in texts
    assert "1 of 1" in texts
    assert "no verdicts until" in texts


@pytest.mark.usefixtures("no_vega")
def test_an_audit_says_what_it_learned_from() -> None:
    columns = [{"name": "price", "read_as": "numbers, '3,50 €' is 3.5"}]
    run = made_run(summary={"learned_from": columns, "predicted_by": "random trees 100%"})
    texts = " ".join(Elements(page_of(run)).texts)
    assert re.search(r"Learned from\s+price \(numbers, '3,50 €' is 3.5\)", texts)
    assert re.search(r"Predicted by\s+random trees 100%", texts)
    assert "How the model learned" in texts
    # Where no network was trained, there is nothing to open.
    texts = " ".join(Elements(page_of(replace(run, traces=None, history=[]))).texts)
    assert "How the model learned" not in texts
    assert "has no traces" not in texts


@pytest.mark.usefixtures("no_vega")
@pytest.mark.parametrize(
    ("summary", "shown"),
    [
        ({"noise_estimated": 0.123, "noise_interval": [0.1, 0.15]}, "12.3 % 10.0 % to 15.0 %"),
        ({"noise_estimated": None}, "not known"),
        ({}, "30.0 %"),
    ],
)
def test_the_noise_rate_is_that_of_the_summary(summary: dict[str, Any], shown: str) -> None:
    run = made_run(truth=False, summary=summary)
    assert run.samples is not None
    run = replace(run, samples=run.samples.assign(p_incorrect=0.3))
    words = " ".join(" ".join(Elements(page_of(with_gallery(run))).texts).split())
    assert f"wrong labels, estimated {shown} " in words


@pytest.mark.usefixtures("no_vega")
def test_several_runs_are_compared_and_folded() -> None:
    runs = [with_gallery(made_run(seed=seed, name=f"run {seed}")) for seed in (1, 2)]
    elements = Elements(page_of(*runs))
    assert len([d for d in elements.named("details") if d.get("class") == "run"]) == 2
    assert "all-comparison" in {f.get("data-figure") for f in elements.named("figure")}
    assert any("±" in text for text in elements.texts)
    audit = Elements(page_of(*runs, is_audit=True))
    assert len([d for d in audit.named("details") if d.get("class") == "run"]) == 1
    assert "all-comparison" not in {f.get("data-figure") for f in audit.named("figure")}


@pytest.mark.usefixtures("no_vega")
def test_the_gallery_has_pictures_with_a_text_instead() -> None:
    elements = Elements(page_of(with_gallery(made_run(), picture_view)))
    pictures = elements.named("img")
    assert len(pictures) > 24
    assert all(str(picture["alt"]).startswith("Sample sample-") for picture in pictures)


def test_the_gallery_holds_the_worst_and_the_hardest() -> None:
    samples = made_run().samples
    assert samples is not None
    gallery = choose_gallery(samples, None, 5)
    incorrect = samples[samples["verdict"] == "incorrect"]
    worst = incorrect.sort_values(["p_incorrect", "average_loss"], ascending=False)["id"][:5]
    assert [entry.id for entry in gallery.worst] == worst.tolist()
    hard = samples[samples["verdict"] == "hard"].sort_values("average_loss", ascending=False)
    assert [entry.id for entry in gallery.hardest] == hard["id"][:5].tolist()
    ranked = choose_gallery(samples.assign(rank=range(len(samples))), None, 5)
    assert [entry.id for entry in ranked.worst] == incorrect["id"][:5].tolist()


def test_samples_to_look_at_are_there_without_an_incorrect_label() -> None:
    samples = made_run().samples
    assert samples is not None
    quiet = samples.assign(verdict="easy", p_incorrect=samples["p_incorrect"] / 10)
    gallery = choose_gallery(quiet, None, 5)
    assert len(gallery.worst) == 5
    assert not gallery.has_incorrect
    assert gallery.hardest == ()
    assert gallery.worst[0].p_incorrect == quiet["p_incorrect"].max()


def test_hard_samples_are_shown_with_how_many_are_wrong() -> None:
    samples = made_run().samples
    assert samples is not None
    doubtful = samples.assign(verdict="undecided", p_incorrect=0.4)
    gallery = choose_gallery(doubtful, None, 10)
    assert gallery.expected_wrong == "About 4 of these 10 labels are probably wrong."
    assert not {one.id for one in gallery.worst} & {one.id for one in gallery.hardest}
    words = " ".join(Elements(page_of(with_gallery(replace(made_run(), samples=doubtful)))).texts)
    assert "do not drop" not in words


def test_views_are_cut_down_to_a_bounded_size() -> None:
    large = thumbnail(picture_view(3, side=2000))
    assert large.picture.startswith("data:image/jpeg;base64,")
    assert len(large.picture) < 60_000
    assert not large.is_tiny
    assert SIDE < 2000
    small = thumbnail(picture_view(3, side=8))
    assert small.picture.startswith("data:image/png;base64,")
    assert small.is_tiny
    broken = thumbnail(SampleView(image=b"no picture"))
    assert (broken.picture, broken.remark) == ("", "the image cannot be shown")
    long = thumbnail(SampleView(text="x" * 10_000, fields=(("a", "1"),) * 50))
    assert len(long.text) == 600
    assert long.remark == "and 44 more fields"


@pytest.mark.parametrize(
    ("value", "text"), [(0.03124, "0.0312"), (4963.2, "4,963"), (12.34, "12.3"), (1e12, "1e+12")]
)
def test_numbers_as_people_read_them(value: float, text: str) -> None:
    assert format_number(value) == text


def test_columns_that_were_read_alike_are_named_together() -> None:
    columns = [{"name": f"flag {n}", "read_as": "yes and no, 't' is yes"} for n in range(10)]
    columns.insert(1, {"name": "age", "read_as": "numbers"})
    flags = ", ".join(f"flag {n}" for n in range(8))
    assert columns_text(columns) == f"{flags} and 2 more (yes and no, 't' is yes); age (numbers)"
