"""Clients that do everything a service takes, each with ids of its own, and never trust silence."""

from __future__ import annotations

import http.client
import json
import random
import threading
import time
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import Any

from faults.ledger import Ledger, Told

FEATURES = [
    {"kind": "flag", "name": "child"},
    {"kind": "flag", "name": "late"},
    {"kind": "category", "name": "sky", "values": ["clear", "grey", "night"]},
]
ARMS = ["crime", "nature", "sport"]
# One asks, the other one learns what expires; with all that waits, snapshots would become large.
AGENTS: dict[str, dict[str, Any]] = {
    "movies": {"limits": "rules", "seed": 3, "budget": 100_000, "doubt": 0.1, "wait": 5.0},
    "songs": {"limits": "rules", "seed": 4, "wait": 1.5, "default_reward": 0.25},
    "plays": {"limits": "rules", "seed": 5, "budget": 100_000, "on_doubt": "play_safe"},
}
DUPLICATES = 0.05
GIVE_UP = 0.1  # of the requests whose first answer was lost
PAUSE = 0.02
_Answer = tuple[int, Any]


def make_agents(port: int, token: str) -> None:
    """Make the agents that the clients work with."""
    line = Line(lambda: port, token)
    for name, more in AGENTS.items():
        made = line.send(
            "POST",
            "/v1/agents",
            {"name": name, "agent": {"arms": ARMS, "features": FEATURES} | more},
        )
        if made is None or made[0] != 201:
            raise RuntimeError(f"The agent {name} could not be made: {made}")
    line.close()


class Line:
    """A keep-alive connection that is made anew when it breaks."""

    def __init__(self, port: Callable[[], int], token: str) -> None:
        self._port = port
        self._head = {"Authorization": f"Bearer {token}", "Content-Type": "application/json"}
        self._connection: http.client.HTTPConnection | None = None

    def send(self, method: str, path: str, body: Any) -> _Answer | None:
        """Send a request once; None if nobody knows what came of it."""
        try:
            if self._connection is None:
                self._connection = http.client.HTTPConnection("127.0.0.1", self._port(), timeout=60)
            data = None if body is None else json.dumps(body)
            self._connection.request(method, path, data, self._head)
            answer = self._connection.getresponse()
            return answer.status, json.loads(answer.read())
        except (OSError, http.client.HTTPException, ValueError):
            self.close()
            return None

    def close(self) -> None:
        """Close it."""
        if self._connection is not None:
            self._connection.close()
            self._connection = None


class Client(threading.Thread):
    """Sends requests until it is told to stop; keeps each one's state in the ledger."""

    def __init__(
        self,
        number: int,
        ports: Sequence[int],
        token: str,
        ledger: Ledger,
        stop: threading.Event,
        *,
        seed: int,
        batch: int,
    ) -> None:
        super().__init__(name=f"client-{number}", daemon=True)
        self._name = f"c{number}"
        self._rng = random.Random(f"{seed} {number}")
        self._ports = ports
        self._ledger = ledger
        self._stop_now = stop
        self._batch = batch
        self._count = 0
        pick = random.Random(f"{seed} {number} port")
        self._line = Line(lambda: pick.choice(ports), token)
        self._twin = Line(lambda: pick.choice(ports), token)
        self._pool = ThreadPoolExecutor(1)
        self._pending: dict[str, list[str]] = {agent: [] for agent in AGENTS}
        self._examples: dict[str, list[str]] = {agent: [] for agent in AGENTS}
        self._questions: list[Any] = []
        self.error: BaseException | None = None

    def run(self) -> None:
        """Send until told to stop."""
        try:
            while not self._stop_now.is_set():
                self._step()
        except BaseException as error:
            self.error = error
            raise
        finally:
            self._line.close()
            self._pool.submit(self._twin.close).result()
            self._pool.shutdown()

    # -- what a client does ------------------------------------------------------------------

    def _step(self) -> None:
        rng = self._rng
        agent = rng.choice(list(AGENTS))
        do = rng.choices(
            [
                self._decide_many,
                self._decide,
                self._decide_unnamed,
                self._reward,
                self._teach,
                self._answer,
                self._ask,
            ],
            [50, 20, 3, 15, 6, 6, 1],
        )[0]
        do(agent)

    def _decide(self, agent: str) -> None:
        id = self._new_id("d")
        body = {"context": self._context(), "id": id, "propensity": self._rng.random() < 0.5}
        answer = self._settle(agent, "decision", [id], "POST", "decisions", body)
        if answer is not None:
            self._ledger.ack(Told(agent, "decision", id, body, answer), 1)
            self._chosen(agent, answer)
            if self._rng.random() < 0.02:
                self._conflict(agent, body | {"propensity": not body["propensity"]})

    def _decide_many(self, agent: str) -> None:
        count = self._rng.randint(1, 2 * self._batch)
        items = [{"context": self._context(), "id": self._new_id("b")} for _ in range(count)]
        ids = [str(item["id"]) for item in items]
        body = {"decisions": items, "propensity": self._rng.random() < 0.2}
        answer = self._settle(agent, "decision", ids, "POST", "decisions", body)
        if answer is not None:
            for item, one in zip(items, answer["decisions"], strict=True):
                self._ledger.ack(Told(agent, "decision", str(item["id"]), item, one), 1)
                self._chosen(agent, one)

    def _decide_unnamed(self, agent: str) -> None:
        """Decide without an id: if the answer is lost, it cannot be asked for again."""
        body = {"context": self._context(), "ask": False}
        answer = self._line.send("POST", f"/v1/agents/{agent}/decisions", body)
        if answer is None or answer[0] >= 500:
            self._ledger.give_up(agent, "decision", None)
            time.sleep(PAUSE)
        elif answer[0] == 200:
            told = Told(agent, "decision", str(answer[1]["id"]), body, answer[1])
            self._ledger.ack(told, 1)

    def _reward(self, agent: str) -> None:
        waiting = self._pending[agent]
        for _ in range(min(len(waiting), 3)):
            id = waiting.pop(self._rng.randrange(len(waiting)))
            body = {"value": self._rng.choice([0.0, 0.25, 1.0])}
            path = f"decisions/{id}/reward"
            answer = self._settle(agent, "reward", [id], "POST", path, body)
            if answer is not None:
                self._ledger.ack(Told(agent, "reward", id, body, answer), 1)
        del waiting[:-500]

    def _teach(self, agent: str) -> None:
        mine = self._examples[agent]
        if len(mine) > 10 or (mine and self._rng.random() < 0.3):
            self._retract(agent, mine.pop(self._rng.randrange(len(mine))))
            return
        examples = [
            {
                "context": self._context(),
                "arm": self._rng.choice(ARMS[:2]),  # the third is always allowed
                "allowed": self._rng.random() < 0.6,
                "id": self._new_id("e"),
            }
            for _ in range(self._rng.randint(1, 3))
        ]
        body = examples[0] if len(examples) == 1 else {"examples": examples}
        ids = [str(one["id"]) for one in examples]
        answer = self._settle(agent, "examples", ids, "POST", "examples", body)
        if answer is not None:
            self._ledger.ack(Told(agent, "examples", ids[0], examples, answer), len(ids))
            mine += ids

    def _retract(self, agent: str, id: str) -> None:
        answer = self._settle(agent, "retraction", [id], "DELETE", f"examples/{id}", None)
        if answer is not None:
            self._ledger.ack(Told(agent, "retraction", id, None, answer), 1)

    def _answer(self, agent: str) -> None:
        if not self._questions:
            return
        agent, id = self._questions.pop()
        body = {"answer": self._rng.choice(["allowed", "denied"])}
        path = f"questions/{id}/answer"
        answer = self._settle(agent, "answer", [str(id)], "POST", path, body)
        if answer is not None:
            then = answer["then"]
            events = 1 + (then is not None)
            self._ledger.ack(Told(agent, "answer", str(id), body, answer), events)
            if then is not None:
                self._chosen(agent, then)

    def _ask(self, agent: str) -> None:
        id = self._new_id("q")
        body = {"context": self._context(), "id": id}
        answer = self._settle(agent, "question", [id], "POST", "questions", body)
        if answer is not None:
            self._ledger.ack(Told(agent, "question", id, body, answer), 1)
            self._questions.append((agent, id))

    def _conflict(self, agent: str, body: dict[str, Any]) -> None:
        """Send another request under an id that stands: it must be refused."""
        answer = self._line.send("POST", f"/v1/agents/{agent}/decisions", body)
        if answer is not None:
            self._ledger.met(answer[0])
        if answer is not None and answer[0] not in (409, 503):
            self._ledger.differ(f"another body under {body['id']} was answered {answer}")

    def _chosen(self, agent: str, choice: dict[str, Any]) -> None:
        if choice["outcome"] == "decision":
            self._pending[agent].append(str(choice["id"]))
        if choice["question"] is not None:
            self._questions.append((agent, choice["question"]["id"]))

    # -- how it is sent ----------------------------------------------------------------------

    def _settle(
        self, agent: str, what: str, ids: list[str], method: str, rest: str, body: Any
    ) -> Any | None:
        """Send a request until its outcome is known, or give up; sometimes send it twice."""
        path = f"/v1/agents/{agent}/{rest}"
        chance = self._rng.random()
        together = chance < DUPLICATES / 2
        after = DUPLICATES / 2 <= chance < DUPLICATES
        patient = self._rng.random() >= GIVE_UP
        while True:
            answers = (
                self._twice(method, path, body)
                if together
                else [self._line.send(method, path, body)]
            )
            for answer in answers:
                if answer is not None:
                    self._ledger.met(answer[0])
            known = [answer for answer in answers if answer is not None and answer[0] < 500]
            if known:
                break
            together = False
            if not patient:
                for id in ids:
                    self._ledger.give_up(agent, what, id)
                return None
            time.sleep(PAUSE)
        if after:
            again = self._line.send(method, path, body)
            if again is not None and again[0] < 500:
                known.append(again)
        if any(not _same(what, one, known[0]) for one in known):
            self._ledger.differ(f"{method} {path} {body} was answered {known}"[:1_000])
        status, answer = known[0]
        if status >= 300:
            for id in ids:
                self._ledger.refuse(agent, what, id)
            return None
        return answer

    def _twice(self, method: str, path: str, body: Any) -> list[_Answer | None]:
        """Send the same at once over two connections."""
        other = self._pool.submit(self._twin.send, method, path, body)
        return [self._line.send(method, path, body), other.result()]

    def _new_id(self, kind: str) -> str:
        self._count += 1
        return f"{self._name}-{kind}{self._count}"

    def _context(self) -> dict[str, Any]:
        rng = self._rng
        return {
            "child": rng.random() < 0.5,
            "late": rng.random() < 0.5,
            "sky": rng.choice(["clear", "grey", "night"]),
        }


def _same(what: str, one: _Answer, other: _Answer) -> bool:
    """Say whether two answers to the same request are the same. Errors name their request."""
    if one[0] >= 300 or other[0] >= 300:
        return one[0] == other[0]
    return bool(one[1] == other[1])
