"""A service with an agent on it, and a browser; skipped where there is no chromium."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import pytest

pytest.importorskip("playwright", reason="playwright is not installed")
pytest.importorskip("uvicorn", reason="the serve extra is not installed")

from playwright.sync_api import Browser

from bridle.client import Client, Trial
from browser.chromium import NoChromium, Watched, chromium

FEATURES = [
    {"kind": "category", "name": "age", "values": ["12-17", "18-24", "25+"]},
    {"kind": "labels", "name": "mood", "values": ["sad", "wild", "calm"]},
    {"kind": "flag", "name": "late"},
    {"kind": "number", "name": "minutes", "low": 0, "high": 240, "unit": "min"},
]
ARMS = [
    {"id": "night", "label": "The Long Night", "group": "Horror"},
    {"id": "fog", "label": "Fog", "group": "Horror"},
    {"id": "kite", "label": "Kite Days", "group": "Comedy"},
    {"id": "sea", "label": "By the Sea", "group": "Drama"},
]


# Of a module and no longer: as long as playwright is there, an event loop runs in this thread, and
# other tests could not run theirs.
@pytest.fixture(scope="module")
def browser() -> Iterator[Browser]:
    try:
        with chromium() as found:
            yield found
    except NoChromium as reason:
        pytest.skip(str(reason))


@pytest.fixture(scope="module")
def service() -> Iterator[Trial]:
    with Trial() as trial:
        yield trial


@pytest.fixture(scope="module")
def admin(service: Trial) -> Iterator[Client]:
    with service.client() as client:
        yield client


@pytest.fixture(scope="module")
def films(admin: Client) -> str:
    """An agent with some life behind it; its name."""
    admin.create(
        "films",
        arms=ARMS,
        features=FEATURES,
        limits="rules",
        budget=500,
        on_doubt="play_safe",
        policy={"kind": "LearnedMask", "sigma": 0.5, "v": 0.25},
        seed=3,
    )
    for n in range(24):
        context = viewing(n)
        arm = ARMS[n % 4]
        allowed = arm["group"] != "Horror" or context["age"] != "12-17"
        admin.teach("films", context, arm["id"], allowed, by="Ann", note=f"note {n}")
    admin.begin_audits("films", q=0.5, delta=0.05)
    live(admin, "films", 40)
    return "films"


@pytest.fixture(scope="module")
def lessons(admin: Client) -> str:
    """An agent with much to be taught; its name."""
    admin.create("lessons", arms=ARMS, features=FEATURES, limits="auto", seed=3)
    for n in range(6):
        admin.teach("lessons", viewing(n), ARMS[n % 4]["id"], n % 3 > 0, by="Ann")
    live(admin, "lessons", 12)
    return "lessons"


def viewing(n: int) -> dict[str, Any]:
    return {
        "age": ["12-17", "18-24", "25+"][n % 3],
        "mood": [["sad"], ["wild", "calm"], []][n // 3 % 3],
        "late": n % 2 == 0,
        "minutes": float(60 + 10 * (n % 12)),
    }


def live(client: Client, agent: str, decisions: int, first: int = 0) -> list[str]:
    """Decide and reward; give the ids of what was played."""
    played = []
    for n in range(first, first + decisions):
        made = client.decide(agent, viewing(n), id=f"visit-{n}", propensity=True)
        if made.outcome == "decision":
            client.reward(agent, made.id, 0.25 + 0.5 * (n % 2))
            played.append(str(made.id))
    return played


@pytest.fixture
def visitor(browser: Browser, service: Trial, admin: Client) -> Iterator[Callable[..., Watched]]:
    """Give somebody at a browser, signed in as a role. Nothing may go wrong on the way."""
    open_: list[Watched] = []

    def come(role: str | None, **how: Any) -> Watched:
        watched = Watched(browser, service.url, **how)
        open_.append(watched)
        if role is not None:
            watched.sign_in(admin.make_token(role, note=f"a {role}").token)
        return watched

    yield come
    for watched in open_:
        watched.close()
    assert [wrong for watched in open_ for wrong in watched.wrong] == []
