"""A real browser without a window, where there is one."""

from __future__ import annotations

import shutil
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import pytest

FLAGS = (
    "--headless",
    "--no-sandbox",
    "--disable-gpu",
    "--disable-quic",
    "--no-first-run",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
    "--disable-dev-shm-usage",
    "--hide-scrollbars",
)


@contextmanager
def open_browser(width: int = 1280, height: int = 900, dark: bool = False) -> Iterator[Any]:
    """A Selenium driver of Debian's chromium; skips the test where there is none."""
    chromium, driver_file = shutil.which("chromium"), shutil.which("chromedriver")
    if chromium is None or driver_file is None:
        pytest.skip("needs chromium and chromedriver")
    selenium = pytest.importorskip("selenium", reason="needs selenium")
    assert selenium is not None
    from selenium import webdriver

    with tempfile.TemporaryDirectory(ignore_cleanup_errors=True) as profile:
        options = webdriver.ChromeOptions()
        options.binary_location = chromium
        for flag in (*FLAGS, f"--user-data-dir={profile}"):
            options.add_argument(flag)
        options.set_capability("goog:loggingPrefs", {"browser": "ALL"})
        service = webdriver.ChromeService(executable_path=driver_file)
        driver = webdriver.Chrome(options=options, service=service)
        try:
            resize(driver, width, height)
            set_dark(driver, dark)
            yield driver
        finally:
            driver.quit()


def resize(driver: Any, width: int, height: int = 900) -> None:
    """The size of the page, also below what a window may have."""
    size = {"width": width, "height": height, "deviceScaleFactor": 1, "mobile": width < 600}
    driver.execute_cdp_cmd("Emulation.setDeviceMetricsOverride", size)


def set_dark(driver: Any, dark: bool) -> None:
    """Which colours the person prefers."""
    scheme = {"name": "prefers-color-scheme", "value": "dark" if dark else "light"}
    driver.execute_cdp_cmd("Emulation.setEmulatedMedia", {"features": [scheme]})


def complaints(driver: Any) -> list[str]:
    """What the page wrote to the console since the last look, but for remarks."""
    entries = driver.get_log("browser")
    return [entry["message"] for entry in entries if entry["level"] in ("WARNING", "SEVERE")]
