"""A teacher at the inbox: live decisions file their doubts, a person answers.

One program decides, with a token of the role ``agent``; another answers, with one of the role
``teacher``. ``python examples/http_teacher.py`` has a scripted teacher; with ``--me`` it asks you.
"""

from __future__ import annotations

import sys
from collections.abc import Callable
from typing import Any

from bridle import Client, Labels, Schema
from bridle.client import Trial

GENRES = ["Comedy", "Drama", "Horror"]
AUDIENCES = ["children", "teens", "adults"]
FORBIDDEN = {"children": {"Horror", "Drama"}, "teens": {"Horror"}, "adults": set[str]()}

Teacher = Callable[[dict[str, Any], object], bool]


def scripted(context: dict[str, Any], audience: object) -> bool:
    return FORBIDDEN[str(audience)].isdisjoint(context["genres"])


def asked(context: dict[str, Any], audience: object) -> bool:
    reply = input(f"May {audience} see a {' + '.join(context['genres'])} movie? [y/n] ")
    return reply.strip().lower().startswith("y")


def empty_inbox(teacher: Client, says: Teacher) -> None:
    """Answer all that waits; each decision goes on with its answer, and may ask again."""
    while questions := teacher.questions("movies").questions:
        for question in questions:
            allowed = says(question.context, question.arm)
            answered = teacher.answer("movies", question.id, allowed, by="editor")
            genres = " + ".join(question.context["genres"])
            said = "allowed" if allowed else "not allowed"
            then = answered.then
            went_on = "" if then is None else f"; decision {then.id}: {then.arm or then.outcome}"
            print(f"  {question.arm} x {genres}: {said}{went_on}")


def main(says: Teacher = scripted) -> None:
    with Trial() as server, server.client() as admin:
        admin.create(
            "movies", arms=AUDIENCES, features=Schema([Labels("genres", GENRES)]), budget=20, seed=1
        )
        # Each program has a token of its own, which can do no more than it needs.
        tokens = [admin.make_token(role, agents=["movies"]) for role in ("agent", "teacher")]
        with (
            Client(server.url, tokens[0].token) as program,
            Client(server.url, tokens[1].token) as teacher,
        ):
            for n, genre in enumerate(GENRES, 1):
                print(f"a {genre} movie")
                choice = program.decide("movies", {"genres": [genre]}, id=f"movie-{n}")
                print(f"  {choice.outcome}: {choice.arm or 'waits for the teacher'}")
                empty_inbox(teacher, says)
            print("taught by now:", teacher.examples("movies").total, "answers")


if __name__ == "__main__":
    main(asked if "--me" in sys.argv[1:] else scripted)
