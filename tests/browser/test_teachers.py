"""Several teachers in a real browser: who one is, a question that two must answer, the pictures."""

from __future__ import annotations

import pytest

pytest.importorskip("axe_playwright_python", reason="axe-playwright-python is not installed")

from axe_playwright_python.sync_playwright import Axe

from bridle.client import Client
from browser.chromium import DESKTOP, PHONE
from tests.browser.conftest import ARMS, FEATURES, viewing

STAFF = [{"name": "editor", "price": 0.35}, {"name": "model <b>", "price": 0.01}]


def staff(admin: Client, name: str) -> str:
    """Make an agent with two teachers, of whom one has judged some cases alone."""
    admin.create(
        name,
        arms=ARMS,
        features=FEATURES,
        limits="rules",
        budget=20,
        seed=3,
        teachers=STAFF,
        promise=[0.05, 0.3],
    )
    for n in range(4):
        for one in STAFF[n % 2 :]:
            admin.teach(name, viewing(n), "night", n > 1, item=n, teacher=str(one["name"]))
    return f"/agents/{name}"


@pytest.fixture(scope="module")
def staffed(admin: Client) -> str:
    return staff(admin, "staffed")


@pytest.mark.parametrize("scripts", [True, False], ids=["with script", "without"])
def test_two_teachers_settle_a_question(visitor, admin, scripts):
    agent, item = f"settled{scripts:d}", "the case"
    path = staff(admin, agent)
    question = admin.ask(agent, viewing(0), item=item)
    pat, ann = visitor("teacher", scripts=scripts), visitor("teacher", scripts=scripts)
    pat.go(f"{path}/teach")
    assert pat.page.locator("[data-note=who-are-you]").is_visible()
    pat.page.get_by_role("button", name="model <b>").click()
    pat.page.locator("[data-for=you]").wait_for()
    assert pat.page.get_by_text(item).is_visible()
    pat.page.locator("#answer button[value=denied]").click()
    pat.page.locator("[data-said=open]", has_text="editor").wait_for()
    assert pat.page.locator("form[action$='/teach/say'] button[value=allowed]").is_visible()
    [waits] = admin.questions(agent, teacher="editor").questions
    assert waits.id == question.id
    ann.go(f"{path}/teach")
    ann.page.get_by_role("button", name="editor").click()
    ann.page.locator("[data-for=you]").wait_for()
    if scripts:
        ann.page.keyboard.press("n")
    else:
        ann.page.locator("#answer button[value=denied]").click()
    ann.page.locator("[data-said=settled-no]").wait_for()
    last = admin.examples(agent).examples[-1]
    assert (last.item, last.allowed, last.by) == (item, False, "editor, model <b>")
    ann.go(f"{path}/checks")
    assert ann.page.locator("[data-judge=editor]").is_visible()  # it is remembered


@pytest.mark.parametrize("theme", ["light", "dark"])
@pytest.mark.parametrize("size", [DESKTOP, PHONE], ids=["desktop", "phone"])
def test_axe_finds_nothing_where_there_are_several(visitor, staffed, theme, size):
    axe, found = Axe(), []
    ann = visitor("admin", theme=theme, size=size)
    for known in (False, True):
        if known:
            ann.go(f"{staffed}/teach")
            ann.page.get_by_role("button", name="editor").click()
            ann.page.locator("[data-judge]").wait_for()
        for path in (
            f"{staffed}/teach",
            f"{staffed}/teachers",
            f"{staffed}/checks",
            f"{staffed}/teach/bulk",
            "/agents",
        ):
            assert ann.go(path) == 200
            for wrong in axe.run(ann.page).response["violations"]:
                nodes = [node["html"][:160] for node in wrong["nodes"][:3]]
                found.append(f"{path}: {wrong['id']}: {wrong['help']} {nodes}")
            wide = ann.page.evaluate("document.documentElement.scrollWidth - innerWidth")
            if wide > 0:
                found.append(f"{path}: it is {wide} px too wide")
    assert found == []
    ann.go(f"{staffed}/teachers")
    assert ann.page.locator("svg.rate").count() == 2
    drawn = ann.page.locator("svg.rate").first.bounding_box()
    assert drawn is not None and drawn["width"] > 200 and drawn["height"] > 25
