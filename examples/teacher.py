"""Ask and answer: the agent asks, a teacher says yes or no, and the limits take shape.

``python examples/teacher.py`` has a scripted teacher; ``python examples/teacher.py --me`` asks you.
"""

from __future__ import annotations

import random
import sys
from collections.abc import Callable

from bridle import Agent, Decision, Labels, Schema

GENRES = ["Comedy", "Drama", "Horror", "Romance"]
AUDIENCES = ["children", "teens", "adults"]
FORBIDDEN = {"children": {"Horror", "Romance"}, "teens": {"Horror"}, "adults": set[str]()}

Teacher = Callable[[str, tuple[str, ...]], bool]


def scripted(audience: str, genres: tuple[str, ...]) -> bool:
    return FORBIDDEN[audience].isdisjoint(genres)


def asked(audience: str, genres: tuple[str, ...]) -> bool:
    reply = input(f"May {audience} see a {' + '.join(genres)} movie? [y/n] ")
    return reply.strip().lower().startswith("y")


def main(teacher: Teacher = scripted, questions: int = 40) -> None:
    agent = Agent(arms=AUDIENCES, features=Schema([Labels("genres", GENRES)]), sigma=0.0, seed=1)
    rng = random.Random(1)
    for number in range(questions):
        genres = tuple(sorted(rng.sample(GENRES, rng.choice([1, 1, 2]))))
        question = agent.ask({"genres": genres})
        audience = str(question.arm)
        answer = teacher(audience, genres)
        agent.answer(question, answer, by="teacher")
        if number < 5:
            print(f"{audience} x {' + '.join(genres)}: {'allowed' if answer else 'not allowed'}")
    print(f"... {questions} answers in all\n\nwhat it believes (1 = allowed, 0 = denied):")
    print(f"{'':10}" + "".join(f"{genre:>16}" for genre in GENRES))
    for k, audience in enumerate(AUDIENCES):
        cells = []
        for genre in GENRES:
            made = agent.make.decided({"genres": [genre]})  # looks, and changes nothing
            assert isinstance(made, Decision)
            cells.append(f"{made.limit_mean[k]:.2f} ± {made.limit_sd[k]:.2f}")
        print(f"{audience:10}" + "".join(f"{cell:>16}" for cell in cells))


if __name__ == "__main__":
    main(asked if "--me" in sys.argv[1:] else scripted, 12 if "--me" in sys.argv[1:] else 40)
