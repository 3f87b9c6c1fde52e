"""A real browser: Debian's Chromium, driven by Playwright, which requests nothing but the pages it is given."""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from contextlib import contextmanager

from playwright.sync_api import Browser, sync_playwright

_QUIET = (
    "--no-sandbox",
    "--disable-gpu",
    "--disable-quic",
    "--no-first-run",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
)


@contextmanager
def chromium() -> Iterator[Browser]:
    path = shutil.which("chromium")
    if path is None:
        raise RuntimeError("chromium is missing: tools/setup.sh test installs it")
    with sync_playwright() as playwright, playwright.chromium.launch(executable_path=path, args=_QUIET) as browser:
        yield browser
