"""How a visitor of the demonstration is recommended movies: through the API, as anybody is."""

from __future__ import annotations

import secrets
from collections.abc import Callable, Collection
from typing import Any, NamedTuple

from bridle.service.demonstrating.hands import Hand
from bridle.service.demonstrating.scenes import Context

__all__ = ["MARK", "STARS", "Visiting"]

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
            "POST /v1/agents/{agent}/decisions/{id}/reward", {"value": stars / STARS},
            agent=self.agent, id=id,
        )  # fmt: skip
