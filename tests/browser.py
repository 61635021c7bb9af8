"""A real browser, without a window."""

from __future__ import annotations

import shutil
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from selenium.webdriver import Chrome

FLAGS = (
    "--headless",
    "--no-sandbox",
    "--disable-gpu",
    "--disable-quic",
    "--no-first-run",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
    "--hide-scrollbars",
)


def program(*names: str) -> str | None:
    """Where the first of these programs is."""
    return next((path for name in names if (path := shutil.which(name))), None)


@contextmanager
def open_browser(width: int = 1280, height: int = 900, dark: bool = False) -> Iterator[Chrome]:
    """Chromium, driven by Selenium; the test is skipped where there is none."""
    browser = program("chromium", "/usr/bin/chromium", "chromium-browser")
    driver = program("chromedriver", "/usr/bin/chromedriver")
    if browser is None or driver is None:
        pytest.skip("there is no chromium with its chromedriver here")
    webdriver = pytest.importorskip("selenium.webdriver")
    # Not the test's own directory: the names of sockets in a profile must be short.
    with tempfile.TemporaryDirectory(ignore_cleanup_errors=True) as profile:
        options = webdriver.ChromeOptions()
        options.binary_location = browser
        for flag in (*FLAGS, f"--user-data-dir={Path(profile, 'profile')}"):
            options.add_argument(flag)
        options.add_argument(f"--window-size={width},{height}")
        options.set_capability("goog:loggingPrefs", {"browser": "ALL"})
        chrome = webdriver.Chrome(options, webdriver.ChromeService(driver))
        try:
            # A window is never narrower than 500 pixels; what the page sees may be.
            chrome.execute_cdp_cmd(
                "Emulation.setDeviceMetricsOverride",
                {"width": width, "height": height, "deviceScaleFactor": 1, "mobile": width < 600},
            )
            scheme = {"name": "prefers-color-scheme", "value": "dark" if dark else "light"}
            chrome.execute_cdp_cmd("Emulation.setEmulatedMedia", {"features": [scheme]})
            yield chrome
        finally:
            chrome.quit()
