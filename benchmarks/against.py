"""This checkout beside another, interleaved: ``python -m benchmarks.against OTHER/src``.

Each job runs in a process of its own, in turn with the one code and the other, so that both meet
the same machine. Printed is the median of the ratios of neighbouring runs: time here / time there.
Only public names that both have are used.
"""

from __future__ import annotations

import argparse
import json
import os
import statistics
import subprocess
import sys
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

HERE = Path(__file__).parent.parent


def _agent(**more: Any) -> Any:
    import bridle

    words = [f"w{i}" for i in range(10)]
    schema = bridle.Schema([bridle.Labels("words", words)])
    return bridle.Agent(arms=[f"a{i}" for i in range(7)], features=schema, seed=3, **more)


def _contexts(n: int) -> list[dict[str, list[str]]]:
    import numpy as np

    rng = np.random.default_rng(5)
    return [{"words": [f"w{i}" for i in np.flatnonzero(row)]} for row in rng.random((n, 10)) < 0.25]


def _taught(agent: Any, contexts: Sequence[Any], n: int) -> None:
    for i in range(n):
        context = contexts[i % len(contexts)]
        agent.teach(context, f"a{i % 7}", allowed="w3" not in context["words"])


def teach() -> Callable[[], None]:
    """Return the job of 60 examples, one by one, to the default agent."""
    contexts = _contexts(400)
    _taught(_agent(), contexts, 10)

    def job() -> None:
        _taught(_agent(), contexts, 60)

    return job


def decide_new() -> Callable[[], None]:
    """Return the job of decisions of the default agent in contexts that it has not met."""
    contexts = [{"words": [f"w{i}" for i in range(10) if n >> i & 1]} for n in range(1_024)]
    agent = _agent()
    _taught(agent, contexts[:40], 40)

    def job() -> None:
        agent.teach(contexts[5], "a1", allowed=True)  # what was looked up before is let go
        for context in contexts[64:664]:
            agent.decide(context)

    return job


def decide_reward() -> Callable[[], None]:
    """Return the job of decisions and rewards of the default agent in contexts that come again."""
    contexts = _contexts(50)
    agent = _agent()
    _taught(agent, contexts, 40)

    def job() -> None:
        for i in range(2_000):
            made = agent.decide(contexts[i % 50])
            if hasattr(made, "arm"):
                agent.reward(made.id, 0.5)

    return job


def thompson() -> Callable[[], None]:
    """Return the job of single steps of plain Thompson sampling, 100 arms."""
    import numpy as np

    import bridle

    X = (np.random.default_rng(1).random((500, 10)) < 0.25).astype(float)
    agent = bridle.Agent(
        arms=100, features=10, policy=bridle.Thompson(v=0.25), exact_denials=False, seed=1
    )

    def job() -> None:
        for i in range(4_000):
            agent.reward(agent.decide(X[i % 500]).id, 0.5)

    return job


def batches() -> Callable[[], None]:
    """Return the job of batches of 1,000 decisions and rewards, 100 arms."""
    import numpy as np

    import bridle

    X = (np.random.default_rng(1).random((1_000, 10)) < 0.25).astype(float)
    agent = bridle.Agent(
        arms=100, features=10, policy=bridle.Thompson(v=0.25), exact_denials=False, seed=1
    )

    def job() -> None:
        for _ in range(20):
            made = agent.decide_many(X, details=False)
            agent.reward_many(made.ids, np.full(1_000, 0.5))

    return job


def replay() -> Callable[[], None]:
    """Return the job of replaying a log of 3,000 events, every decision re-derived."""
    import bridle

    log: list[Any] = []
    agent = _agent(sink=log.extend)
    contexts = _contexts(50)
    _taught(agent, contexts, 30)
    for i in range(1_500):
        made = agent.decide(contexts[i % 50])
        if hasattr(made, "arm"):
            agent.reward(made.id, 0.5)

    def job() -> None:
        bridle.Agent.replay(log)

    return job


JOBS: dict[str, Callable[[], Callable[[], None]]] = {
    "teach": teach,
    "decide, new contexts": decide_new,
    "decide and reward": decide_reward,
    "single steps, 100 arms": thompson,
    "batches, 100 arms": batches,
    "replay": replay,
}


def _run(name: str, repeats: int) -> list[float]:
    job = JOBS[name]()
    job()
    times = []
    for _ in range(repeats):
        began = time.perf_counter()
        job()
        times.append(time.perf_counter() - began)
    return times


def _measured(source: Path, name: str, repeats: int) -> float:
    """Return the least time of a job with the code below `source`, in seconds."""
    environment = {**os.environ, "PYTHONPATH": f"{source}{os.pathsep}{HERE}"}
    command = [sys.executable, __file__, "--job", name, "--repeats", str(repeats)]
    done = subprocess.run(command, env=environment, capture_output=True, text=True, check=True)
    times: list[float] = json.loads(done.stdout.splitlines()[-1])
    return min(times)


def main(arguments: Sequence[str] | None = None) -> int:
    """Print a line a job: the median ratio, and all ratios."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("other", nargs="?", type=Path, help="the other checkout's src")
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--repeats", type=int, default=5)
    parser.add_argument("--only", choices=JOBS, action="append")
    parser.add_argument("--job", choices=JOBS, help=argparse.SUPPRESS)
    options = parser.parse_args(arguments)
    if options.job:
        print(json.dumps(_run(options.job, options.repeats)))
        return 0
    if options.other is None:
        parser.error("which other checkout? Give the path of its src.")
    for name in options.only or JOBS:
        ratios = []
        for turn in range(options.rounds):
            pair = [HERE / "src", options.other.resolve()]
            order = pair if turn % 2 == 0 else pair[::-1]
            times = {source: _measured(source, name, options.repeats) for source in order}
            ratios.append(times[pair[0]] / times[pair[1]])
        each = " ".join(f"{ratio:.2f}" for ratio in ratios)
        print(f"{name:24} {statistics.median(ratios):5.2f}   ({each})", flush=True)
    return 0


if __name__ == "__main__":
    sys.exit(main())
