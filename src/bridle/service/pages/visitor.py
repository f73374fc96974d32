"""A visitor of the demonstration: picks an age, is recommended movies and rates them.

The rating is the reward. The page is there only in a demonstration.
"""

from __future__ import annotations

from typing import NamedTuple

from bridle.events import Abstained, Asked, Decided, Expired, Rewarded
from bridle.service.demonstrating.visiting import MARK, STARS, Visiting
from bridle.service.pages.page import Html, Page, Redirect, Shown, Visit
from bridle.service.pages.rendering import url
from bridle.service.problems import Problem
from bridle.settings import Arm
from bridle.store.kept import Kept
from bridle.store.writing import Desk

__all__ = ["PAGES"]

LIKE = ("GET /v1/agents",)
MOST_SEEN = 4_000  # characters


class Seen(NamedTuple):
    """A recommendation, as the log has it.

    Attributes
    ----------
    age, child
        To whom.
    movie : Arm or None
        What was recommended; None: nothing.
    doubted : Arm or None
        What it was not sure of, and has asked a teacher about.
    stars : float or None
        What it was given.
    late : bool
        Whether it waits for no rating any more.
    """

    age: str
    child: bool
    movie: Arm | None
    doubted: Arm | None
    stars: float | None
    late: bool


async def start(visit: Visit) -> Shown:
    """Ask who the visitor is."""
    return _start(_visiting(visit))


async def recommend(visit: Visit) -> Shown:
    """Have a movie recommended."""
    visiting = _visiting(visit)
    age = visit.form.get("age")
    if age not in visiting.ages:
        return _start(visiting, "Choose how old you are.")
    seen = _seen(visit.form.get("seen"), visiting)
    id = await visiting.recommend(age, visit.form.get("child") == "yes", seen)
    return Redirect(url("visit", id, seen=",".join(seen)))


async def movie(visit: Visit) -> Shown:
    """Show what was recommended."""
    visiting, id = _visiting(visit), _id(visit)
    made = await visit.service.do(visiting.agent, lambda desk: _look(desk, id, visiting.child))
    seen = _seen(visit.query.get("seen"), visiting)
    return Html("visitor-movie.html", {
        "id": id, "made": made, "agent_name": visiting.agent, "stars": STARS, "seen": seen,
        "rest": len(visiting.movies) - len(seen),
    })  # fmt: skip


async def rate(visit: Visit) -> Shown:
    """Take the stars, and have the next movie recommended."""
    visiting, id = _visiting(visit), _id(visit)
    stars = visit.form.whole("stars", low=0, high=STARS)
    made = await visit.service.do(visiting.agent, lambda desk: _look(desk, id, visiting.child))
    if made.movie is None:
        raise Problem("conflict", "Nothing was recommended, so there is nothing to rate.")
    await visiting.rate(id, stars)
    seen = _seen(visit.form.get("seen"), visiting)
    seen = [*(one for one in seen if one != made.movie.id), str(made.movie.id)]
    following = await visiting.recommend(made.age, made.child, seen)
    said = "rated" if stars else "passed"
    return Redirect(url("visit", following, seen=",".join(seen), said=said))


def _start(visiting: Visiting, wrong: str = "") -> Html:
    values = {"ages": visiting.ages, "movies": len(visiting.movies), "wrong": wrong}
    return Html("visitor.html", values, 422 if wrong else 200)


def _visiting(visit: Visit) -> Visiting:
    found = visit.service.visiting
    if found is None:
        raise Problem(
            "not_found", "This page is only there in a demonstration.",
            remedy="Start one with: bridle serve --demo",
        )  # fmt: skip
    return found


def _id(visit: Visit) -> str:
    id = visit.path["id"]
    if not id.startswith(MARK):
        raise Problem("not_found", "No visitor was recommended anything under that address.")
    return id


def _seen(text: str, visiting: Visiting) -> list[str]:
    """Give the movies that a visitor has seen. Words that are none are left out."""
    given = dict.fromkeys(text[:MOST_SEEN].split(","))
    movies = set(visiting.movies)
    return [one for one in given if one in movies]


def _look(desk: Desk, id: str, child: str) -> Seen:
    kept = desk.kept
    found = desk.stood("decision", id)
    if found is None or not isinstance(found.event, Decided | Abstained):
        raise Problem("not_found", "No visitor was recommended anything under that address.")
    event = found.event
    context = kept.know.settings.features.decode(event.context)
    # A question that was filed with it stands next to it.
    filed = desk.at(found.seq + 1) if event.ask else None
    doubted = None
    if isinstance(filed, Asked) and filed.decision == event.id:
        doubted = _arm(kept, filed.arm)
    outcome = desk.stood("outcome", id)
    stars = None
    if outcome is not None and isinstance(outcome.event, Rewarded):
        stars = STARS * outcome.event.value
    return Seen(
        age=str(context["age"]),
        child=bool(context[child]),
        movie=_arm(kept, event.arm) if isinstance(event, Decided) else None,
        doubted=doubted,
        stars=stars,
        late=outcome is not None and isinstance(outcome.event, Expired),
    )


def _arm(kept: Kept, id: int | str) -> Arm:
    return kept.know.arms[kept.know.arm_number(id)]


PAGES: tuple[Page, ...] = (
    Page(method="GET", path="/visit", handle=start, like=LIKE),
    Page(method="POST", path="/visit", handle=recommend, like=LIKE),
    Page(method="GET", path="/visit/{id}", handle=movie, like=LIKE),
    Page(method="POST", path="/visit/{id}", handle=rate, like=LIKE),
)
