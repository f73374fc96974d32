"""A catalogue of 5,000 films that changes daily: what is learned of one serves others like it.

Run it with ``python examples/catalogue.py``. Films, viewers and the editor are made up. The editor
denies by what films are like; the agent is never told how, and asks where an answer pays.
"""

from __future__ import annotations

import itertools
import random

from bridle import Agent, Category, Schema, read_catalogue, update_catalogue
from bridle.agent.outcomes import SlateDecision

GENRES = ["Action", "Comedy", "Crime", "Drama", "Family", "Horror"]
RATINGS = ["G", "PG", "PG-13", "R"]
BANDS = ["under 13", "13 to 17", "adult"]
Film = dict[str, object]


def film(number: int, rng: random.Random) -> Film:
    genres = rng.sample(GENRES, rng.choice([1, 2, 2]))
    grim = "Horror" in genres or "Crime" in genres
    rating = rng.choice(RATINGS[2:] if grim else RATINGS[:3])
    return {
        "id": f"f{number}",
        "title": f"Film {number}",
        "genres": "|".join(genres),
        "rating": rating,
        "year": rng.randint(1970, 2026),
    }


def editor_allows(one: Film, band: str) -> bool:
    if band == "under 13":
        return "Horror" not in str(one["genres"]) and one["rating"] in ("G", "PG")
    return band == "adult" or one["rating"] != "R"


def liked(one: Film, band: str, rng: random.Random) -> float:
    taste = {"under 13": "Family", "13 to 17": "Action", "adult": "Drama"}[band]
    return float(rng.random() < (0.7 if taste in str(one["genres"]) else 0.2))


def main(films: int = 5_000, days: int = 5, visits: int = 60) -> None:
    rng, numbers = random.Random(1), itertools.count()
    shop = {str(one["id"]): one for one in (film(next(numbers), rng) for _ in range(films))}
    catalogue = read_catalogue(shop.values(), label="title")
    print("\n".join(catalogue.describe()))
    agent = Agent(
        arms=catalogue.arms,
        features=Schema([Category("band", BANDS)]),
        arm_features=catalogue.schema,
        budget=200,
        on_doubt="play_safe",
        seed=1,
    )
    for one in rng.sample(list(shop.values()), 40):  # a few to begin with
        band = rng.choice(BANDS)
        agent.teach({"band": band}, str(one["id"]), editor_allows(one, band), by="editor")
    for day in range(1, days + 1):
        earned = shown = wrong = 0.0
        for _ in range(visits):
            band = rng.choice(BANDS)
            slate = agent.decide({"band": band}, k=5)
            for question in [slate.question] if slate.question is not None else []:
                allowed = editor_allows(shop[str(question.arm)], band)
                agent.answer(question, allowed, by="editor")
            if not isinstance(slate, SlateDecision):
                continue
            rewards = [liked(shop[str(arm)], band, rng) for arm in slate.arms]
            agent.reward_slate(slate, items=rewards)
            earned, shown = earned + sum(rewards), shown + len(rewards)
            wrong += sum(not editor_allows(shop[str(arm)], band) for arm in slate.arms)
        print(
            f"day {day}: {earned / max(shown, 1.0):.0%} of {shown:.0f} liked, {wrong:.0f} denied, "
            f"{len(agent.examples)} answers"
        )
        for id in rng.sample(sorted(shop), films // 50):  # 2 % leave, as many are new
            del shop[id]
        for _ in range(films // 50):
            new = film(next(numbers), rng)
            shop[str(new["id"])] = new
        today = read_catalogue(shop.values(), label="title", features=catalogue.schema)
        changes = update_catalogue(agent, today, by="import")
        print(f"  {len(changes.add)} added, {len(changes.retire)} retired")
    for sentence in agent.describe():
        print(f"  {sentence}")


if __name__ == "__main__":
    main()
