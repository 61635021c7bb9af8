"""The page in a real browser: drawn, without complaints, as wide as the screen, light and dark."""

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from browser import complaints, open_browser, resize, set_dark
from report_runs import NASTY, made_run, nasty_view, picture_view

from discrimloss.auditing.report.contents import ReportContents
from discrimloss.auditing.report.gallery import choose_gallery, format_number
from discrimloss.auditing.report.map_of_data import DataMap
from discrimloss.auditing.report.page import write_report
from discrimloss.auditing.report.sample_table import make_table
from discrimloss.auditing.report.wording import UNIT, probability_percent
from discrimloss.auditing.sources.contents import SampleView

PLOTS = """
const drawn = '.mark-line path, .mark-area path, .mark-rect path, .mark-symbol path';
const plots = Array.from(document.querySelectorAll('figure > .plot'));
return plots.filter(plot => plot.querySelector(drawn)).length;
"""
WIDTHS = "return [document.documentElement.scrollWidth, window.innerWidth]"
INK = """
const title = document.querySelector('.plot .role-axis-title text');
return [title && getComputedStyle(title).fill, getComputedStyle(document.body).backgroundColor];
"""


AREAS = """
const areas = document.querySelectorAll('.plot .mark-area path');
return Array.from(areas, area => area.getAttribute('d'));
"""
LEGEND = """
const losses = document.querySelector('[data-figure$=losses]');
const labels = losses.querySelectorAll('.role-legend-label text');
return Array.from(labels, label => label.textContent.split(' (')[0]);
"""


OPEN_DETAILS = """
const done = arguments[1], found = document.querySelector(arguments[0]);
found.addEventListener('toggle', () => done()); found.open = true;
"""
CUT_OFF = """
// Labels of axes that leave their chart, or are shortened to nearly nothing.
return Array.from(document.querySelectorAll('.plot svg')).flatMap(svg => {
  const box = svg.getBoundingClientRect();
  const texts = svg.querySelectorAll('.role-axis-label text, .role-axis-title text');
  return Array.from(texts).filter(text => {
    const own = text.getBoundingClientRect();
    const outside = own.left < box.left - 1 || own.right > box.right + 1
      || own.bottom > box.bottom + 1;
    return own.width > 0 && (outside || text.textContent.replace('…', '').length === 0);
  }).map(text => text.textContent);
});
"""


def write_pages(directory: Path) -> tuple[Path, Path]:
    names = (f"{NASTY} {'long' * 30}", "b", "c", "d")
    nasty = made_run(80, epochs=3, class_names=names, name=NASTY * 5)
    pictures = made_run(80, epochs=3, seed=1)
    runs = []
    for run, view in ((nasty, nasty_view), (pictures, picture_view)):
        assert run.samples is not None
        runs.append(replace(run, gallery=choose_gallery(run.samples, view, 6)))
    one, several = directory / "one.html", directory / "several.html"
    write_report(ReportContents(NASTY * 3, (runs[0],)), one)
    write_report(ReportContents("Two runs", tuple(runs)), several)
    return one, several


def wait(driver: Any, condition: Callable[[Any], object]) -> None:
    from selenium.webdriver.support.wait import WebDriverWait

    WebDriverWait(driver, 60).until(condition)


def wait_for_plots(driver: Any, number: int) -> None:
    wait(driver, lambda driver: driver.execute_script(PLOTS) >= number)
    assert driver.execute_script(PLOTS) == number


def fits(driver: Any) -> bool:
    wide, screen = driver.execute_script(WIDTHS)
    return bool(wide <= screen)


@pytest.mark.filterwarnings("ignore:unclosed:ResourceWarning")  # selenium's own connection
def test_a_page_in_a_browser(tmp_path: Path) -> None:
    one, several = write_pages(tmp_path)
    with open_browser() as driver:
        colours = set()
        for width, dark in ((1280, False), (375, True)):
            resize(driver, width)
            set_dark(driver, dark)
            driver.get(one.as_uri())
            assert len(driver.find_elements("css selector", "figure")) == 8
            wait_for_plots(driver, 2)  # those about the data; the others open on demand
            driver.execute_async_script(OPEN_DETAILS, "details.learned")
            wait_for_plots(driver, 8)
            assert driver.execute_script(CUT_OFF) == []
            assert fits(driver)
            assert driver.execute_script("return window.hacked") is None
            assert complaints(driver) == []
            colours.add(tuple(driver.execute_script(INK)))
        assert len(colours) == 2
        # Charts follow when the preference changes on an open page.
        in_the_dark = driver.execute_script(INK)
        set_dark(driver, False)
        wait(driver, lambda driver: driver.execute_script(INK) != in_the_dark)
        wait(driver, lambda driver: tuple(driver.execute_script(INK)) in colours)

        slider = "const s = document.querySelector('input[type=range]');"
        shown = "return document.querySelector('output').textContent"
        assert driver.execute_script(shown) == "Epoch 3"
        before = driver.execute_script(AREAS)
        driver.execute_script(f"{slider} s.value = 0; s.dispatchEvent(new Event('input'))")
        assert driver.execute_script(shown) == "Epoch 1"
        wait(driver, lambda driver: driver.execute_script(AREAS) != before)
        driver.execute_script("document.querySelectorAll('.views button')[1].click()")
        truth = ["truly clean", "truly wrong"]
        wait(driver, lambda driver: driver.execute_script(LEGEND) == truth)
        assert driver.execute_script(shown) == "Epoch 1"

        driver.get(several.as_uri())
        wait_for_plots(driver, 1)  # the others are folded away
        driver.execute_async_script(OPEN_DETAILS, "details.run")
        wait_for_plots(driver, 3)
        driver.execute_async_script(OPEN_DETAILS, "details.learned")
        wait_for_plots(driver, 9)
        assert fits(driver)
        assert complaints(driver) == []


BROKEN_OPTIONS = """
return Array.from(document.querySelectorAll('.steps .option'))
  .filter(word => word.getClientRects().length !== 1).map(word => word.textContent);
"""


ROWS = "return Array.from(document.querySelectorAll('#table tbody tr'), row => row.innerText)"
TYPE = """
const field = document.getElementById('table-filters').elements[arguments[0]];
field.value = arguments[1]; field.dispatchEvent(new Event('input', {bubbles: true}));
"""
POINT = """
const map = JSON.parse(document.getElementById('map-data').textContent);
const canvas = document.querySelector('#map canvas'), box = canvas.getBoundingClientRect();
const row = map.id.indexOf(arguments[0]);
const at = {clientX: box.left + 8 + map.x[row] / 1000 * (box.width - 16),
            clientY: box.top + 8 + (1 - map.y[row] / 1000) * (box.height - 16), bubbles: true};
canvas.dispatchEvent(new PointerEvent('pointermove', {...at, pointerType: 'mouse'}));
return document.querySelector('.map-sample').innerText;
"""


def write_audit_page(path: Path) -> Any:
    """A page with a table and a map; its samples are far apart, and have names that do harm."""
    run = made_run(60, epochs=1, truth=False, class_names=(NASTY, "b", "c", "d"))
    samples = run.samples
    assert samples is not None
    places = {"index": list(range(60)), "x": [n % 10 * 100 for n in range(60)]}
    places |= {"y": [n // 10 * 150 for n in range(60)], "id": samples["id"].tolist()}
    labels = {name: samples[name].tolist() for name in ("given", "suggested", "verdict")}
    colours = {"classes": [[NASTY, "#c9356f"], ["b", "#2e86c8"]], "verdicts": [["easy", "#2e86c8"]]}
    columns = {**places, **labels, **colours, "p": [0.4] * 60, "text": [NASTY] * 60}
    table = make_table(samples, lambda row: SampleView(text=f"text {row} {NASTY} {'long ' * 60}"))
    forms = (f"numbers, '<{number},5' is {number}.5" for number in range(60))
    learned = [{"name": f"{NASTY} {n}", "read_as": form} for n, form in enumerate(forms)]
    summary = {**run.summary, "learned_from": learned, "predicted_by": "random trees 100%"}
    run = replace(run, table=table, map=DataMap(columns, 60, 60), traces=None, summary=summary)
    address = "http://127.0.0.1:20000/"
    contents = ReportContents("Audit", (run,), is_audit=True, directory="x", review_address=address)
    write_report(contents, path)
    return samples, table


def samples_loss(samples: Any, table: Any) -> list[str]:
    return [format_number(samples["average_loss"][row]) for row in table.columns["index"]]


def shown_percent(p: float) -> str:
    return probability_percent(p / 1000).replace(UNIT, " %")


@pytest.mark.filterwarnings("ignore:unclosed:ResourceWarning")  # selenium's own connection
def test_the_table_and_the_map_in_a_browser(tmp_path: Path) -> None:
    samples, table = write_audit_page(tmp_path / "audit.html")
    with open_browser() as driver:
        driver.get((tmp_path / "audit.html").as_uri())
        worst = table.columns["id"]
        rows = driver.execute_script(ROWS)
        assert len(rows) == 25
        assert worst[0] in rows[0]
        for row, p, loss in zip(
            rows, table.columns["p"], samples_loss(samples, table), strict=False
        ):
            assert shown_percent(p) in row  # as on the cards
            assert loss in row
        # Many columns do not push the samples off the page.
        learned, predicted = driver.find_elements("css selector", "dl.basis div")
        assert learned.text.startswith(f"Learned from {NASTY} 0 (numbers, '<0,5' is 0.5)")
        assert learned.size["height"] < 120
        assert predicted.text == "Predicted by random trees 100%"
        link = driver.find_element("css selector", "#table tbody a").get_attribute("href")
        assert link == f"http://127.0.0.1:20000/#verdict=all&sample={table.columns['index'][0]}"
        driver.execute_script("document.querySelector('[data-step=\"1\"]').click()")
        assert worst[25] in driver.execute_script(ROWS)[0]
        driver.execute_script(TYPE, "verdict", "easy")
        easy = int((samples["verdict"] == "easy").sum())
        assert len(driver.execute_script(ROWS)) == min(25, easy)
        driver.execute_script(TYPE, "verdict", "")
        driver.execute_script(TYPE, "search", "text 17 LONG")
        assert [("sample-17" in row) for row in driver.execute_script(ROWS)] == [True]
        text = driver.find_element("css selector", "#table .text")
        folded = text.size["height"]
        driver.find_element("css selector", "#table .link").click()
        assert text.size["height"] > folded
        driver.execute_script(TYPE, "search", "nowhere")
        assert driver.execute_script(ROWS) == ["No sample fits."]
        driver.execute_script(TYPE, "search", "")
        driver.execute_script("document.querySelector('th[data-key=id] button').click()")
        assert "sample-0" in driver.execute_script(ROWS)[0]
        pointed = driver.execute_script(POINT, "sample-42")
        assert "sample-42" in pointed
        assert "P(wrong) < 0.1 %" in pointed
        driver.execute_script("document.querySelector('[data-colour=verdict]').click()")
        legend = driver.find_element("css selector", ".map-legend")
        assert legend.text.strip() == "easy"
        # Commands break between options, and never within one.
        assert "--accept-suggestions" in driver.find_element("css selector", ".steps").text
        for width in (320, 390, 1280):
            resize(driver, width)
            assert driver.execute_script(BROKEN_OPTIONS) == []
        resize(driver, 390)
        assert fits(driver)
        assert learned.is_displayed()
        assert learned.size["width"] <= 390
        assert driver.execute_script("return window.hacked") is None
        assert complaints(driver) == []
