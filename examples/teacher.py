"""Ask and answer: the agent asks, a teacher says yes or no, and the limits take shape.

``python examples/teacher.py`` has a scripted teacher; ``python examples/teacher.py --me`` asks you.
"""

from __future__ import annotations

import sys
from collections.abc import Callable
from itertools import combinations
from typing import cast

from bridle import Agent, Labels, Schema

GENRES = ["Comedy", "Drama", "Horror", "Romance"]
AUDIENCES = ["children", "teens", "adults"]
FORBIDDEN = {"children": {"Horror", "Romance"}, "teens": {"Horror"}, "adults": set[str]()}

Teacher = Callable[[str, tuple[str, ...]], bool]


def scripted(audience: str, genres: tuple[str, ...]) -> bool:
    return FORBIDDEN[audience].isdisjoint(genres)


def asked(audience: str, genres: tuple[str, ...]) -> bool:
    reply = input(f"May {audience} see a {' + '.join(genres)} movie? [y/n] ")
    return reply.strip().lower().startswith("y")


def main(teacher: Teacher = scripted, questions: int = 12) -> None:
    agent = Agent(arms=AUDIENCES, features=Schema([Labels("genres", GENRES)]), seed=1)
    # It chooses what to ask about, out of all movies of one or two genres.
    pool = [{"genres": genres} for n in (1, 2) for genres in combinations(GENRES, n)]
    for _ in range(questions):
        question = agent.ask(pool=pool)
        audience = str(question.arm)
        genres = tuple(map(str, cast("list[str]", agent.schema.decode(question.context)["genres"])))
        answer = teacher(audience, genres)
        agent.answer(question, answer, by="teacher")
        print(f"{audience} x {' + '.join(genres)}: {'allowed' if answer else 'not allowed'}")
    print("\nwhat it has learned:")
    for sentence in agent.describe():
        print(f"  {sentence}")
    print("\nprobability of allowed:")
    print(f"{'':10}" + "".join(f"{genre:>10}" for genre in GENRES))
    for k, audience in enumerate(AUDIENCES):
        chances = [agent.believed({"genres": [genre]}).p[k] for genre in GENRES]
        print(f"{audience:10}" + "".join(f"{p:>10.2f}" for p in chances))


if __name__ == "__main__":
    main(asked if "--me" in sys.argv[1:] else scripted)
