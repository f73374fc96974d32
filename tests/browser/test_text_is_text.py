"""What people and programs write is text, whatever stands in it."""

from __future__ import annotations

from tests.browser.test_every_page import every_page

# Would set window.ran if any of it ran, and would be refused by the policy, which is noted too.
SCRIPT = "<script>window.ran=1</script>"
IMAGE = "<img src=x onerror=window.ran=1>"
BROKEN = "\"'><svg onload=window.ran=1>"
TEMPLATE = "{{ 7*7 }}${window.ran=1}"


def evil(n: int) -> str:
    return f"{n}{[SCRIPT, IMAGE, BROKEN, TEMPLATE][n % 4]}"


def test_script_in_every_field_stays_text(visitor, admin):
    features = [
        {"kind": "category", "name": evil(1), "values": [evil(2), evil(3)]},
        {"kind": "labels", "name": evil(4), "values": [evil(5), evil(6)]},
        {"kind": "flag", "name": evil(7)},
        {"kind": "number", "name": evil(8), "low": 0, "high": 9, "unit": IMAGE},
    ]
    arms = [{"id": evil(k), "label": evil(k + 1), "group": evil(k % 2)} for k in range(4)]
    admin.create(
        "evil",
        arms=arms,
        features=features,
        limits="rules",
        budget=100,
        on_doubt="play_safe",
        rules=[
            {
                "id": evil(9),
                "when": [{"feature": evil(7), "equals": True}],
                "arms": [evil(0)],
                "note": evil(2),
            }
        ],
        seed=1,
    )
    context = {evil(1): evil(2), evil(4): [evil(5)], evil(7): False, evil(8): 3.0}
    for k in range(4):
        admin.teach("evil", context, evil(k), k > 0, by=evil(k), note=evil(k + 1))
    admin.teach("evil", context, evil(2), False, by=evil(3), note=evil(1))  # they disagree
    admin.begin_audits("evil", q=1.0, delta=0.05)
    made = [admin.decide("evil", context, id=f"x-{n}", propensity=True) for n in range(6)]
    other = context | {evil(4): [evil(6)], evil(8): 5.0}
    admin.decide("evil", other, id="x-asks")
    for one in made:
        if one.outcome == "decision":
            admin.reward("evil", one.id, 0.5)
    admin.make_token("teacher", note=evil(1))
    for role in ("admin", "teacher"):
        ann = visitor(role)
        seen = ""
        for path in every_page("evil", str(made[0].id)):
            if "{" in path:
                continue
            answer = ann.page.request.get(path)
            if "text/html" not in answer.headers.get("content-type", "") or answer.status >= 400:
                continue
            ann.page.goto(path)
            assert ann.page.evaluate("window.ran") is None, path
            assert ann.page.locator("svg[onload], img[onerror], main script").count() == 0, path
            seen += ann.page.inner_text("body")
        for text in (SCRIPT, IMAGE, BROKEN, TEMPLATE):
            assert text in seen
    live = visitor("auditor")
    live.go("/agents/evil/live")
    live.page.mouse.move(2, 2)
    live.page.locator("#state[data-state=live]").wait_for()
    admin.decide("evil", context, id="x-late")
    live.page.wait_for_selector("#feed a[href$='/x-late']", timeout=15_000)
    assert live.page.evaluate("window.ran") is None
    assert live.page.locator("#feed img, #feed script, #feed svg").count() == 0
