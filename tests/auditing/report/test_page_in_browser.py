"""The page in a real browser: drawn, without complaints, as wide as the screen, light and dark."""

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from browser import complaints, open_browser, resize, set_dark
from report_runs import NASTY, made_run, nasty_view, picture_view

from discrimloss.auditing.report.contents import ReportContents
from discrimloss.auditing.report.gallery import choose_gallery
from discrimloss.auditing.report.page import write_report

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
const labels = document.querySelector('.plot').querySelectorAll('.role-legend-label text');
return Array.from(labels, label => label.textContent.split(' (')[0]);
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
            wait_for_plots(driver, 8)
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
        driver.execute_async_script(
            "const done = arguments[0], run = document.querySelector('details.run');"
            "run.addEventListener('toggle', () => done()); run.open = true;"
        )
        wait_for_plots(driver, 9)
        assert fits(driver)
        assert complaints(driver) == []
