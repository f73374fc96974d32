"""What people come for, done as they do it."""

from __future__ import annotations

import re
from pathlib import Path

from browser.chromium import PHONE, Watched
from tests.browser.conftest import ARMS, FEATURES, live, viewing

BULK = """age,mood,late,minutes,arm,allowed
12-17,sad,no,90,night,no
12-17,wild|calm,yes,120,fog,no
25+,,no,100,sea,yes
18-24,calm,no,60,kite,yes
"""


def test_a_teacher_teaches_by_keyboard_undoes_and_uploads(visitor, lessons, admin, tmp_path: Path):
    ann = visitor("teacher")
    page = ann.page
    before = admin.agent(lessons).examples
    ann.go(f"/agents/{lessons}/limits")
    picture = page.locator("table").first.inner_text()
    ann.go(f"/agents/{lessons}/teach")
    for n in range(30):
        asked = page.locator("#question").inner_text()
        assert page.locator("[data-note=nothing-left]").count() == 0, n
        # Horror is not for who is 12 to 17; all else is fine.
        denied = ("Long Night" in asked or "Fog" in asked) and "12-17" in page.inner_text("main")
        with page.expect_navigation():
            page.keyboard.press("n" if denied else "a")
    assert admin.agent(lessons).examples == before + 30
    with page.expect_navigation():
        page.keyboard.press("u")
    assert admin.agent(lessons).examples == before + 29
    assert page.locator("[data-undone]").is_visible()

    # A key in the field for the reason is a letter.
    page.get_by_label("Why").fill("")
    page.get_by_label("Why").press("a")
    assert page.get_by_label("Why").input_value() == "a"
    assert admin.agent(lessons).examples == before + 29

    file = tmp_path / "examples.csv"
    file.write_text(BULK, encoding="utf-8")
    ann.go(f"/agents/{lessons}/teach/bulk")
    page.locator("input[type=file]").set_input_files(file)
    page.locator("main form button.main, main form button").first.click()
    page.wait_for_load_state()
    assert page.locator("[data-line]").count() == 4
    assert admin.agent(lessons).examples == before + 29, "nothing is taught before it is confirmed"
    page.locator("button[name=upto]").first.click()
    page.wait_for_load_state()
    assert admin.agent(lessons).examples == before + 33
    ann.go(f"/agents/{lessons}/limits")
    assert page.locator("table").first.inner_text() != picture


def test_decisions_appear_as_they_come(visitor, films, admin):
    auditor = visitor("auditor")
    page = auditor.page
    auditor.go(f"/agents/{films}/live")
    page.mouse.move(2, 2)  # over the list it would stand still
    page.locator("#state[data-state=live]").wait_for()
    live(admin, films, 3, first=1_000)
    page.wait_for_selector("#feed a[href$='/visit-1002']", timeout=15_000)
    page.locator("#pause").click()
    live(admin, films, 2, first=2_000)
    page.mouse.move(2, 2)
    page.wait_for_timeout(1_500)
    assert page.locator("#feed a[href$='/visit-2001']").count() == 0
    page.locator("#pause").click()
    page.mouse.move(2, 2)
    page.wait_for_selector("#feed a[href$='/visit-2001']", timeout=15_000)


def test_an_auditor_reads_why_and_takes_the_log(visitor, films, admin):
    [id] = live(admin, films, 12, first=3_000)[:1]
    auditor = visitor("auditor")
    page = auditor.page
    auditor.go(f"/agents/{films}/decisions")
    page.get_by_label("Id", exact=True).fill(id)
    page.get_by_role("button", name="Search").click()
    page.get_by_role("link", name=id, exact=True).click()
    page.wait_for_load_state()
    assert "age" in page.inner_text("[data-value=context]")
    assert "Kite Days" in page.inner_text("[data-value=explanation]")
    assert page.inner_text("td[data-value=reward]").startswith("0.")
    assert page.locator("svg.bar").count() >= 4
    auditor.go(f"/agents/{films}/decisions")
    with page.expect_download() as begun:
        page.get_by_role("link", name=re.compile("csv")).click()
    text = Path(begun.value.path()).read_text(encoding="utf-8-sig")
    assert id in text and len(text.splitlines()) > 40


def test_who_may_not_gets_nowhere(browser, service, admin, films, visitor):
    teacher = Watched(browser, service.url)
    teacher.sign_in(admin.make_token("teacher").token)
    for path in ("/settings", f"/agents/{films}/settings", f"/agents/{films}/decisions"):
        assert teacher.go(path) == 403
        assert teacher.page.locator("[role=alert][data-problem='403']").is_visible()
    assert teacher.page.locator("header a[href='/settings']").count() == 0
    teacher.go("/agents")
    teacher.page.get_by_role("button", name="Sign out").click()
    teacher.page.wait_for_url("**/sign-in*")
    for path in ("/agents", "/settings", f"/agents/{films}/teach", f"/agents/{films}/live"):
        teacher.go(path)
        assert "/sign-in" in teacher.page.url
    teacher.close()


def test_teaching_without_a_script_on_a_phone(visitor, lessons, admin):
    ann = visitor(None, scripts=False, size=PHONE)
    ann.sign_in(admin.make_token("teacher").token)
    before = admin.agent(lessons).examples
    ann.go(f"/agents/{lessons}/teach")
    ann.page.locator("#answer button[value=allowed]").click()
    ann.page.wait_for_load_state()
    assert admin.agent(lessons).examples == before + 1
    ann.page.locator("#undo button").click()
    ann.page.wait_for_load_state()
    assert admin.agent(lessons).examples == before


def test_a_person_moves_by_keyboard_alone(visitor, films):
    ann = visitor("admin")
    page = ann.page
    for path in (f"/agents/{films}/teach", f"/agents/{films}/dial", f"/agents/{films}/settings"):
        ann.go(path)
        page.keyboard.press("Tab")
        assert page.evaluate("document.activeElement.className") == "skip"
        reached = set()
        for _ in range(150):
            page.keyboard.press("Tab")
            reached.add(page.evaluate("document.activeElement.outerHTML.slice(0, 200)"))
        wanted = page.locator(
            "main a[href]:visible, main button:visible:enabled, main input:visible, "
            "main select:visible, main textarea:visible"
        ).count()
        # Of radio buttons of one name a Tab reaches one.
        assert len(reached) >= min(wanted, 100) * 0.6


def test_checks_are_judged_by_keyboard_and_a_promise_is_made(visitor, admin):
    admin.create("checked", arms=ARMS, features=FEATURES, limits="rules", seed=3)
    for n in range(24):
        arm = ARMS[n % 4]
        admin.teach("checked", viewing(n), arm["id"], arm["group"] != "Horror", by="Ann")
    live(admin, "checked", 60)
    before = admin.agent("checked").checks
    assert before.open >= 4
    ann = visitor("admin", size=PHONE)
    page = ann.page
    ann.go("/agents/checked/checks")
    assert page.locator("[data-check]").is_visible()
    for key in ("a", "n"):
        with page.expect_navigation():
            page.keyboard.press(key)
    with page.expect_navigation():
        page.keyboard.press("s")
    assert "after=1" in page.url
    after = admin.agent("checked").checks
    assert (after.judged, after.found) == (2, 1) and after.open == before.open - 2
    line = page.locator("[data-status]")
    assert (line.get_attribute("data-judged"), line.get_attribute("data-found")) == ("2", "1")

    # A promise: first its price, then the promise; and every page says so.
    ann.go("/agents/checked/promises")
    page.locator("main a[href$='/promises/keep']").click()
    page.locator("[name=every]").fill("20")
    page.locator("form[action$='/promises/price'] button").click()
    page.locator("[data-value=price]").wait_for()
    assert "1 play in 20" in page.inner_text("[data-value=price]")
    page.locator("form[action$='/promises/keep'] button").click()
    page.locator("[data-said=promised]").wait_for()
    ann.go("/agents/checked/limits")
    line = page.locator("[data-status=playing]")
    assert "1 %" in line.inner_text()
