"""Somebody simulated who calls the API: the same rows, rights and checks as over HTTP."""

from __future__ import annotations

import secrets
from collections.abc import Callable, Collection, Mapping
from typing import Any, NamedTuple

from pydantic import TypeAdapter, ValidationError
from pydantic_core import to_json

from bridle.agent.config import Arm
from bridle.agent.events import Abstained, Asked, Decided, Expired, Rewarded
from bridle.server import guards
from bridle.server.endpoints import Call, Endpoint
from bridle.server.problems import Problem, wrong_form
from bridle.server.service import Service
from bridle.server.table import endpoints
from bridle.store.aggregate import Aggregate
from bridle.store.writer import UnitOfWork
from bridle.web.page import Html, Page, Redirect, Shown, Visit
from bridle.web.rendering import url

__all__ = ["MARK", "PAGES", "STARS", "Hand", "Visiting"]


Context = Mapping[str, Any]


class Hand:
    """Calls endpoints by their name, with a token.

    Parameters
    ----------
    service : Service
        Whose API it is.
    token : str
        Whose hand it is. When the token is revoked or expires, the hand can do no more.
    """

    def __init__(self, service: Service, token: str) -> None:
        self._service = service
        self._token = b"Bearer " + token.encode()
        self._rows = {f"{row.method} {row.path}": row for row in endpoints()}
        self._bodies: dict[str, TypeAdapter[Any]] = {}

    async def call(self, endpoint: str, body: Any = None, /, query: Any = None, **path: str) -> Any:
        """Call an endpoint: ``call("POST /v1/agents/{agent}/decisions", {...}, agent="movies")``.

        A body is plain JSON values. What it answers is given back, what it refuses is raised.
        """
        row, service = self._rows[endpoint], self._service
        await service.tokens.fresh()
        caller = service.tokens.caller(self._token)
        service.tokens.spend(caller)
        guards.check_rights(caller, frozenset(row.roles or ()), path.get("agent"))
        if row.query is not None:
            query = row.query.model_validate(query or {})
        form = None if row.body is None else self._form(endpoint, row, body)
        reply = await row.handle(Call(service, caller, path, query, form))
        return reply.body

    def _form(self, endpoint: str, row: Endpoint, body: Any) -> Any:
        adapter = self._bodies.get(endpoint)
        if adapter is None:
            adapter = self._bodies[endpoint] = TypeAdapter(row.body)
        try:
            return adapter.validate_json(to_json(body))
        except ValidationError as error:
            raise wrong_form(error) from None


# --- How a visitor of the demonstration is recommended movies: through the API, as anybody is


STARS = 5
# The ids of visitors' decisions begin with it: no page here shows another's.
MARK = "visitor-"


class Visiting(NamedTuple):
    """What the page for visitors uses.

    Attributes
    ----------
    agent : str
        That recommends.
    movies : tuple of str
        What it can recommend: ids.
    ages : tuple of str
        The ages a visitor may have.
    child : str
        What the feature is called that says whether a child watches, too.
    hand : Hand
        Calls the API for visitors, whatever role they have signed in with.
    remember : callable
        Takes the id, the context and the arm of a decision: its audit may be judged.
    """

    agent: str
    movies: tuple[str, ...]
    ages: tuple[str, ...]
    child: str
    hand: Hand
    remember: Callable[[str, Context, str], None]

    async def recommend(self, age: str, child: bool, seen: Collection[str]) -> str:
        """Decide, among what was not seen yet; give the id of the decision."""
        context = {"age": age, self.child: child}
        rest = [movie for movie in self.movies if movie not in seen] or [*self.movies]
        id = MARK + secrets.token_hex(8)
        body = {"context": context, "id": id, "among": rest, "propensity": True}
        made: dict[str, Any] = await self.hand.call(
            "POST /v1/agents/{agent}/decisions", body, agent=self.agent
        )
        if made["arm"] is not None:
            self.remember(id, context, made["arm"])
        return id

    async def rate(self, id: str, stars: int) -> None:
        """Reward a decision with stars; none: not interested."""
        await self.hand.call(
            "POST /v1/agents/{agent}/decisions/{id}/reward",
            {"value": stars / STARS},
            agent=self.agent,
            id=id,
        )


# --- A visitor of the demonstration: picks an age, is recommended movies and rates them ---
#
# The rating is the reward. The page is there only in a demonstration.


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
    made = await visit.service.do(visiting.agent, lambda work: _look(work, id, visiting.child))
    seen = _seen(visit.query.get("seen"), visiting)
    return Html(
        "visitor-movie.html",
        {
            "id": id,
            "made": made,
            "agent_name": visiting.agent,
            "stars": STARS,
            "seen": seen,
            "rest": len(visiting.movies) - len(seen),
        },
    )


async def rate(visit: Visit) -> Shown:
    """Take the stars, and have the next movie recommended."""
    visiting, id = _visiting(visit), _id(visit)
    stars = visit.form.whole("stars", low=0, high=STARS)
    made = await visit.service.do(visiting.agent, lambda work: _look(work, id, visiting.child))
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
            "not_found",
            "This page is only there in a demonstration.",
            remedy="Start one with: bridle serve --demo",
        )
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


def _look(work: UnitOfWork, id: str, child: str) -> Seen:
    kept = work.aggregate
    found = work.find("decision", id)
    if found is None or not isinstance(found.event, Decided | Abstained):
        raise Problem("not_found", "No visitor was recommended anything under that address.")
    event = found.event
    context = kept.state.settings.features.decode(event.context)
    # A question that was filed with it stands next to it.
    filed = work.at(found.seq + 1) if event.ask else None
    doubted = None
    if isinstance(filed, Asked) and filed.decision == event.id:
        doubted = _arm(kept, filed.arm)
    outcome = work.find("outcome", id)
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


def _arm(kept: Aggregate, id: int | str) -> Arm:
    return kept.state.arms[kept.state.arm_number(id)]


PAGES: tuple[Page, ...] = (
    Page(method="GET", path="/visit", handle=start, like=LIKE),
    Page(method="POST", path="/visit", handle=recommend, like=LIKE),
    Page(method="GET", path="/visit/{id}", handle=movie, like=LIKE),
    Page(method="POST", path="/visit/{id}", handle=rate, like=LIKE),
)
