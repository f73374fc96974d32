"""Chromium that records what a page must never do, whatever a test is about.

Errors on the console, requests that leave the host, what the Content-Security-Policy refused, and
layout that shifts while nobody asked for it.
"""

from __future__ import annotations

import contextlib
import shutil
from collections.abc import Iterator
from typing import Any, Literal
from urllib.parse import urlsplit

from playwright.sync_api import Browser, Page, Request, sync_playwright

__all__ = ["DESKTOP", "PHONE", "NoChromium", "Theme", "Watched", "chromium"]

Theme = Literal["light", "dark"]
DESKTOP, PHONE = (1280, 900), (390, 844)
ARGUMENTS = [
    "--no-sandbox",
    "--disable-gpu",
    "--disable-quic",
    "--no-first-run",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
]
# Less is a pixel or two of one small thing, as when chromium lays out a page on a busy machine
# in two steps. Whatever a person could see is more.
LEAST_SHIFT = 1e-4
# Runs before anything else of each page.
_WATCH = """
window.__refused = [];
window.__shift = 0;
document.addEventListener("securitypolicyviolation", (event) => {
  window.__refused.push(event.violatedDirective + " " + event.blockedURI);
});
new PerformanceObserver((list) => {
  for (const entry of list.getEntries()) {
    if (!entry.hadRecentInput) window.__shift += entry.value;
  }
}).observe({ type: "layout-shift", buffered: true });
"""


class NoChromium(Exception):
    """There is no chromium on this machine."""


@contextlib.contextmanager
def chromium() -> Iterator[Browser]:
    """Start Debian's chromium; `NoChromium` says how to get it."""
    path = shutil.which("chromium") or shutil.which("chromium-browser")
    if path is None:
        raise NoChromium("chromium is not installed: apt-get install chromium")
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=path, args=ARGUMENTS)
        try:
            yield browser
        finally:
            browser.close()


class Watched:
    """A page of the browser, with cookies of its own, and what it did wrong.

    Attributes
    ----------
    page : Page
        Playwright's.
    wrong : list of str
        What was noted so far, of all pages that were opened.
    """

    def __init__(
        self,
        browser: Browser,
        url: str,
        *,
        size: tuple[int, int] = DESKTOP,
        theme: Theme = "light",
        scripts: bool = True,
    ) -> None:
        self.url = url
        self.wrong: list[str] = []
        self._host = urlsplit(url).netloc
        self._context = browser.new_context(
            base_url=url,
            viewport={"width": size[0], "height": size[1]},
            color_scheme=theme,
            java_script_enabled=scripts,
            reduced_motion="reduce",
            accept_downloads=True,
        )
        self._scripts = scripts
        self._context.add_init_script(_WATCH)
        self.page: Page = self._context.new_page()
        self.page.on("console", self._console)
        self.page.on("pageerror", lambda error: self.wrong.append(f"error: {error}"))
        self.page.on("request", self._requested)

    def close(self) -> None:
        """Close the page, after a last check of it."""
        self.look()
        self._context.close()

    def sign_in(self, token: str) -> None:
        """Sign in through the form."""
        self.page.goto("/sign-in")
        self.page.get_by_label("Token").fill(token)
        self.page.get_by_role("button", name="Sign in").click()
        self.page.wait_for_url("**/agents")

    def go(self, path: str) -> int:
        """Open a page, after a check of the one before; return its status."""
        self.look()
        answer = self.page.goto(path)
        assert answer is not None
        return answer.status

    def look(self) -> None:
        """Record what the open page was refused, and how much its layout shifted."""
        if not self._scripts or not self.page.url.startswith("http"):
            return
        found: dict[str, Any] = self.page.evaluate(
            "() => ({refused: window.__refused || [], shift: window.__shift || 0})"
        )
        where = urlsplit(self.page.url).path
        self.wrong += [f"{where}: refused {one}" for one in found["refused"]]
        if found["shift"] > LEAST_SHIFT:
            self.wrong.append(f"{where}: the layout shifted by {found['shift']:.2g}")
        self.page.evaluate("() => { window.__refused = []; window.__shift = 0; }")

    def _console(self, message: Any) -> None:
        if message.type in ("error", "warning"):
            self.wrong.append(f"console: {message.text} at {message.location.get('url')}")

    def _requested(self, request: Request) -> None:
        parts = urlsplit(request.url)
        if parts.scheme not in ("data", "blob") and parts.netloc != self._host:
            self.wrong.append(f"a request to {request.url}")
