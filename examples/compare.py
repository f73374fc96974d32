"""Several policies in one synthetic world, in the compiled loop.

Run it with ``python examples/compare.py``.
"""

from __future__ import annotations

from bridle import BehaviorConstrained, EpsilonGreedy, KnownMask, LinUCB, Thompson, Uniform
from bridle.simulate import simulate
from bridle_studies.environments import synthetic_movies

POLICIES = [
    Uniform(),
    EpsilonGreedy(epsilon=0.1),
    LinUCB(alpha=0.25),
    Thompson(v=0.25),
    BehaviorConstrained(sigma=0.75),
    BehaviorConstrained(sigma=0.25),
    KnownMask(reading="argmax"),
    KnownMask(reading="filter"),
]


def main(steps: int = 20_000) -> None:
    world = synthetic_movies(seed=1)
    print(f"{world.name}: {world.tables.arms} arms, {len(world.tables)} contexts, T = {steps:,}\n")
    print(f"{'policy':58} {'R':>6} {'Rc':>6} {'E':>7}")
    for policy in POLICIES:
        run = simulate(world.tables, policy=policy, examples=10_000, steps=steps, seed=1)
        print(f"{policy!s:58} {run.R[-1]:6.3f} {run.Rc[-1]:6.3f} {run.E[-1]:7,}")


if __name__ == "__main__":
    main()
