"""A visitor of the demonstration, who is recommended movies and rates them."""

from __future__ import annotations

import secrets
from collections.abc import Callable, Collection, Mapping
from typing import Any, NamedTuple

from pydantic import TypeAdapter, ValidationError
from pydantic_core import to_json

from bridle.agent.config import Arm
from bridle.agent.events import Abstained, Asked, Decided, Expired, Rewarded
from bridle.server.endpoints import Call, Endpoint
from bridle.server.problems import Problem, wrong_form
from bridle.server.service import Service
from bridle.server.table import endpoints
from bridle.store.aggregate import Aggregate
from bridle.store.writer import UnitOfWork
from bridle.web.page import Html, Page, Redirect, Shown, Visit
from bridle.web.rendering import url

__all__ = ["MARK", "PAGES", "STARS", "ApiCaller", "Visiting"]


Context = Mapping[str, Any]


class ApiCaller:
    """Calls endpoints by name, with a token: the same rights and checks as over HTTP.

    Parameters
    ----------
    service : Service
        Whose API it is.
    token : str
        With which it calls. Once the token is revoked or expires, calls raise.
    """

    def __init__(self, service: Service, token: str) -> None:
        self._service = service
        self._token = b"Bearer " + token.encode()
        self._rows = {f"{row.method} {row.path}": row for row in endpoints()}
        self._bodies: dict[str, TypeAdapter[Any]] = {}

    async def call(self, endpoint: str, body: Any = None, /, query: Any = None, **path: str) -> Any:
        """Call an endpoint: ``call("POST /v1/agents/{agent}/decisions", {...}, agent="movies")``.

        A body is plain JSON values. Return the body of the answer, or raise the problem.
        """
        row, service = self._rows[endpoint], self._service
        roles = frozenset(row.roles or ())
        caller = await service.tokens.admit(self._token, roles, path.get("agent"))
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


# --- Recommendations through the API, as for any program ---


STARS = 5
# The prefix of the ids of visitors' decisions: no page here shows any other.
MARK = "visitor-"


class Visiting(NamedTuple):
    """What the page for visitors needs.

    Attributes
    ----------
    agent : str
        The agent that recommends.
    movies : tuple of str
        What it can recommend: ids.
    ages : tuple of str
        The ages a visitor may have.
    child : str
        The name of the feature that says whether a child watches, too.
    hand : ApiCaller
        Calls the API for visitors, whatever role they have signed in with.
    remember : callable
        Takes the id, the context and the arm of a decision: its audit may be judged.
    """

    agent: str
    movies: tuple[str, ...]
    ages: tuple[str, ...]
    child: str
    hand: ApiCaller
    remember: Callable[[str, Context, str], None]

    async def recommend(self, age: str, child: bool, seen: Collection[str]) -> str:
        """Decide among the movies that were not seen yet; return the id of the decision."""
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


# --- The pages: choose an age, get a movie and rate it ------------------------------------
#
# The rating is the reward. The page is there only in a demonstration.


LIKE = ("GET /v1/agents",)
MOST_SEEN = 4_000  # characters


class Recommendation(NamedTuple):
    """A recommendation, as the log has it.

    Attributes
    ----------
    age, child
        The visitor.
    movie : Arm or None
        The recommended movie; None if there was none.
    doubted : Arm or None
        The movie in doubt, about which it asked a teacher.
    stars : float or None
        The rating.
    late : bool
        Whether the deadline for a rating has passed.
    """

    age: str
    child: bool
    movie: Arm | None
    doubted: Arm | None
    stars: float | None
    late: bool


async def start(visit: Visit) -> Shown:
    """Show the form that asks who the visitor is."""
    return _start(_visiting(visit))


async def recommend(visit: Visit) -> Shown:
    """Recommend a movie, and show it."""
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
    made = await visit.service.do(
        visiting.agent, lambda work: _read_recommendation(work, id, visiting.child)
    )
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
    """Record the stars, and recommend the next movie."""
    visiting, id = _visiting(visit), _id(visit)
    stars = visit.form.whole("stars", low=0, high=STARS)
    made = await visit.service.do(
        visiting.agent, lambda work: _read_recommendation(work, id, visiting.child)
    )
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
    """Return the movies that a visitor has seen; unknown words are left out."""
    given = dict.fromkeys(text[:MOST_SEEN].split(","))
    movies = set(visiting.movies)
    return [one for one in given if one in movies]


def _read_recommendation(work: UnitOfWork, id: str, child: str) -> Recommendation:
    aggregate = work.aggregate
    found = work.find("decision", id)
    if found is None or not isinstance(found.event, Decided | Abstained):
        raise Problem("not_found", "No visitor was recommended anything under that address.")
    event = found.event
    context = aggregate.state.settings.features.decode(event.context)
    # A question that was filed with it is the next entry.
    filed = work.at(found.seq + 1) if event.ask else None
    doubted = None
    if isinstance(filed, Asked) and filed.decision == event.id:
        doubted = _arm(aggregate, filed.arm)
    outcome = work.find("outcome", id)
    stars = None
    if outcome is not None and isinstance(outcome.event, Rewarded):
        stars = STARS * outcome.event.value
    return Recommendation(
        age=str(context["age"]),
        child=bool(context[child]),
        movie=_arm(aggregate, event.arm) if isinstance(event, Decided) else None,
        doubted=doubted,
        stars=stars,
        late=outcome is not None and isinstance(outcome.event, Expired),
    )


def _arm(aggregate: Aggregate, id: int | str) -> Arm:
    return aggregate.state.arms[aggregate.state.arm_number(id)]


PAGES: tuple[Page, ...] = (
    Page(method="GET", path="/visit", handle=start, like=LIKE),
    Page(method="POST", path="/visit", handle=recommend, like=LIKE),
    Page(method="GET", path="/visit/{id}", handle=movie, like=LIKE),
    Page(method="POST", path="/visit/{id}", handle=rate, like=LIKE),
)
