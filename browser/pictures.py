"""Pictures of every page, for the docs: ``python -m browser.pictures [--out docs/images/pages]``.

It starts `bridle serve --demo`, lets it live for a while, comes in as an admin and takes each page
at desktop width, in the light; and, with ``--all``, in the dark and on a phone, too.
"""

from __future__ import annotations

import argparse
import io
import re
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Sequence
from pathlib import Path

from PIL import Image
from playwright.sync_api import Page

from browser.chromium import DESKTOP, PHONE, Theme, Watched, chromium

AGENT = "/agents/movies"
# What is taken, by the name of its file.
PAGES = {
    "agents": "/agents",
    "new-agent": "/agents/new",
    "teach": f"{AGENT}/teach",
    "bulk": f"{AGENT}/teach/bulk",
    "examples": f"{AGENT}/teach/examples",
    "checks": f"{AGENT}/checks",
    "limits": f"{AGENT}/limits",
    "what-if": f"{AGENT}/limits/what-if",
    "dial": f"{AGENT}/dial",
    "live": f"{AGENT}/live",
    "decisions": f"{AGENT}/decisions",
    "why": f"{AGENT}/decisions",
    "promises": f"{AGENT}/promises",
    "audits": f"{AGENT}/promises/audits",
    "agent-settings": f"{AGENT}/settings",
    "settings": "/settings",
    "visit": "/visit",
}
START_SECONDS = 60.0
LONGEST = 1_500  # pixels


def main(arguments: Sequence[str] | None = None) -> int:
    """Take all pictures; return 1 if a page did what no page may."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--out", type=Path, default=Path("docs/images/pages"))
    parser.add_argument("--all", action="store_true", help="also in the dark, and on a phone")
    parser.add_argument("--seconds", type=float, default=20.0, help="how long it lives before")
    options = parser.parse_args(arguments)
    options.out.mkdir(parents=True, exist_ok=True)
    themes: tuple[Theme, ...] = ("light", "dark") if options.all else ("light",)
    sizes = {"": DESKTOP, "-phone": PHONE} if options.all else {"": DESKTOP}
    wrong: list[str] = []
    with tempfile.TemporaryDirectory() as folder:
        process, url = _demo(Path(folder) / "log")
        try:
            time.sleep(options.seconds)
            with chromium() as browser:
                for theme in themes:
                    for name, size in sizes.items():
                        watched = Watched(browser, url, theme=theme, size=size)
                        dark = "-dark" if theme == "dark" else ""
                        _take(watched, options.out, name + dark)
                        watched.close()
                        wrong += watched.wrong
        finally:
            process.send_signal(signal.SIGINT)
            process.wait(60)
    for one in wrong:
        print(one, file=sys.stderr)
    print(f"written: {options.out}")
    return 1 if wrong else 0


def _demo(log: Path) -> tuple[subprocess.Popen[bytes], str]:
    with log.open("wb") as file:
        process = subprocess.Popen(
            [sys.executable, "-m", "bridle", "serve", "--demo", "--port", "0", "--quiet"],
            stdout=file,
            stderr=file,
        )
    end = time.monotonic() + START_SECONDS
    while time.monotonic() < end and process.poll() is None:
        found = re.search(r"Open (http://\S+?)/?\s", log.read_text(errors="replace"))
        if found:
            return process, found[1]
        time.sleep(0.1)
    process.kill()
    raise RuntimeError(
        f"The demonstration did not start: {log.read_text(errors='replace')[-2_000:]}"
    )


def _take(watched: Watched, out: Path, suffix: str) -> None:
    page = watched.page
    page.goto("/sign-in")
    _shoot(page, out / f"sign-in{suffix}.png")
    page.get_by_role("button", name=re.compile("admin", re.I)).first.click()
    page.wait_for_url("**/agents")
    for name, path in PAGES.items():
        watched.go(path)
        _prepare(page, name)
        _shoot(page, out / f"{name}{suffix}.png", full=True)
        print(f"{name}{suffix}", flush=True)


def _shoot(page: Page, path: Path, full: bool = False) -> None:
    """Take a picture, of the beginning of a long page, in few colours: a tenth of the bytes."""
    taken = Image.open(io.BytesIO(page.screenshot(full_page=full))).convert("RGB")
    taken = taken.crop((0, 0, taken.width, min(taken.height, LONGEST)))
    taken.quantize(128, dither=Image.Dither.NONE).save(path, optimize=True)


def _prepare(page: Page, name: str) -> None:
    """Prepare a page so that its picture shows something."""
    page.mouse.move(2, 2)
    if name == "dial":
        button = page.get_by_role("button", name=re.compile("work|evaluate|compute|look", re.I))
        if button.count():
            button.first.click()
            page.wait_for_selector("main table", timeout=120_000)
    elif name == "why":
        page.get_by_label("What came out").select_option("decision")
        page.get_by_label("Reward").select_option("yes")
        page.get_by_role("button", name="Search").click()
        page.wait_for_load_state()
        page.locator("main tbody th a").first.click()
        page.wait_for_load_state()
    elif name == "live":
        page.wait_for_timeout(4_000)


if __name__ == "__main__":
    sys.exit(main())
