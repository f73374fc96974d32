"""Every page, in both themes and at both widths: nothing that axe finds, nothing that scrolls."""

from __future__ import annotations

import pytest

pytest.importorskip("axe_playwright_python", reason="axe-playwright-python is not installed")

from axe_playwright_python.sync_playwright import Axe

from bridle.web.app import pages
from browser.chromium import DESKTOP, PHONE
from tests.browser.conftest import live

# Not pages to look at: files, streams, parts of pages.
NO_PAGES = {"/", "/static/{name}", "/visit"}


def every_page(films: str, decision: str) -> list[str]:
    found = []
    for page in pages():
        last = page.path.rpartition("/")[2]
        if page.method != "GET" or page.path in NO_PAGES or last in ("stream", "curves"):
            continue
        path = page.path.replace("{agent}", films)
        if path.endswith("/decisions/{id}"):
            path = path.replace("{id}", decision)
        found.append(path)
    return found


@pytest.mark.parametrize("theme", ["light", "dark"])
@pytest.mark.parametrize("size", [DESKTOP, PHONE], ids=["desktop", "phone"])
def test_axe_finds_nothing_on_any_page(visitor, films, admin, theme, size):
    [decision] = live(admin, films, 9, first=5_000 if theme == "light" else 6_000)[:1]
    axe, found = Axe(), []
    ann = visitor("admin", theme=theme, size=size)
    seen = 0
    for path in every_page(films, decision):
        if "{" in path or "export" in path or path.endswith(("backup", ".csv", ".jsonl")):
            continue
        answer = ann.page.goto(path)
        assert answer is not None
        if "text/html" not in answer.headers.get("content-type", "") or answer.status >= 300:
            continue
        if not ann.page.locator("main").count():
            continue  # a part of a page
        seen += 1
        results = axe.run(ann.page)
        for wrong in results.response["violations"]:
            nodes = [node["html"][:160] for node in wrong["nodes"][:3]]
            found.append(f"{path}: {wrong['id']}: {wrong['help']} {nodes}")
        wide = ann.page.evaluate("document.documentElement.scrollWidth - innerWidth")
        if wide > 0:
            found.append(f"{path}: it is {wide} px too wide")
        ann.look()
    assert seen >= 12
    assert found == []
