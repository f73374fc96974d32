"""The simulated people around one agent: those it decides for, and a teacher.

They do all through the API. First a past, quickly; then they keep coming, a few a second.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
from collections import OrderedDict, deque
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from bridle.errors import BridleError
from bridle.server.problems import Problem
from bridle.web.visitor import ApiCaller
from bridle_studies.demo.scenes import Context, Scene

__all__ = ["ADA", "Crowd"]

log = logging.getLogger("bridle.demonstration")

# A log that is longer than this gets no more events from here; past the first, a tenth as many.
SLOW_AFTER, MOST_EVENTS = 100_000, 200_000
# Of what waits for a teacher so much is left to whoever visits.
QUESTIONS_LEFT, AUDITS_LEFT = 8, 3
# A guest rates after so many others have come. After each so many guests the teacher answers a
# question, and judges what is audited.
LAG, AN_ANSWER, A_JUDGEMENT = 4, 15, 6
REMEMBERED = 5_000
LONGEST_PAUSE = 30.0
AUDIT_SHARE = 0.1
# Who teaches.
ADA, BEN = "Ada (simulated)", "Ben (simulated)"


class Crowd:
    """Everybody around one agent.

    Parameters
    ----------
    scene : Scene
        The world they live in.
    program, teacher, admin : Hand
        Who calls: the program that decides, the simulated teacher, and who makes the agent.
    rate : float
        Guests a second.
    seed : int
        Of who comes when.
    """

    def __init__(
        self,
        scene: Scene,
        *,
        program: ApiCaller,
        teacher: ApiCaller,
        admin: ApiCaller,
        rate: float,
        seed: int,
    ) -> None:
        self.scene = scene
        self.events = 0  # of the agent's log, as far as was heard
        self.rate = rate
        self._program, self._teacher, self._admin = program, teacher, admin
        self._rng = np.random.default_rng(seed)
        self._rating: deque[tuple[str, float]] = deque()  # decisions, and the reward to come
        self._known: OrderedDict[str, tuple[Context, str]] = OrderedDict()
        self._guests = 0
        self._answer_at, self._judge_at = AN_ANSWER, A_JUDGEMENT

    def remember(self, id: str, context: Context, arm: str) -> None:
        """Remember a decision, so that the teacher can judge it if it is audited."""
        self._known[id] = context, arm
        if len(self._known) > REMEMBERED:
            self._known.popitem(last=False)

    # -- the past ----------------------------------------------------------------------------

    async def begin(self) -> None:
        """Make the agent, with audits from its first decision on."""
        await self._admin.call(
            "POST /v1/agents", {"name": self.scene.name, "agent": self.scene.agent}
        )
        audit = {"q": AUDIT_SHARE, "delta": 0.05}
        await self._call(self._admin, "POST /v1/agents/{agent}/audit", audit)

    async def teach(
        self, times: Sequence[float], set_clock: Callable[[float], None], together: int
    ) -> None:
        """Answer, as the teacher, some questions at each of these times."""
        pool = [self.scene.pool[n] for n in self._rng.permutation(len(self.scene.pool))]
        ask = "POST /v1/agents/{agent}/questions"
        for n, at in enumerate(times):
            set_clock(at)
            some = [pool[k % len(pool)] for k in range(n * together, (n + 1) * together)]
            # At once, here as below: what comes together shares a commit.
            asked = await asyncio.gather(
                *(self._call(self._teacher, ask, {"context": dict(one)}) for one in some)
            )
            await asyncio.gather(*(self._answer(one) for one in asked))

    async def disagree(self) -> None:
        """Contradict, as a second teacher, what the first one has said, once."""
        found = await self._call(
            self._teacher, "GET /v1/agents/{agent}/examples", query={"limit": 100}
        )
        said = next((one for one in found.examples if one.allowed), None)
        if said is not None:
            body = {
                "context": said.context,
                "arm": said.arm,
                "allowed": False,
                "by": BEN,
                "note": "I would rather not.",
            }
            await self._call(self._teacher, "POST /v1/agents/{agent}/examples", body)

    async def live_before(
        self, times: Sequence[float], set_clock: Callable[[float], None], together: int
    ) -> None:
        """Simulate guests in groups, one group at each of these times; all of them rate."""
        for at in times:
            set_clock(at)
            await asyncio.gather(*(self._decide() for _ in range(together)))
            await self._rate(0)
            await self._look(0)

    # -- the present -------------------------------------------------------------------------

    async def keep_coming(self) -> None:
        """Simulate guests, one by one, until the log is long enough. It survives errors."""
        pause = 0.0
        while self.events < MOST_EVENTS:
            rate = self.rate if self.events < SLOW_AFTER else self.rate / 10.0
            wait = min(float(self._rng.exponential(1.0 / rate)), 4.0 / rate)
            await asyncio.sleep(wait + pause)
            try:
                await self.come()
                pause = 0.0
            except Problem as problem:
                if problem.code == "no_token":
                    log.warning("%s: the simulated people stop, they may no more", self.scene.name)
                    return
                pause = self._later(pause, problem)
            except BridleError as error:
                pause = self._later(pause, error)
            except Exception:
                log.exception("%s: a simulated guest failed", self.scene.name)
                pause = LONGEST_PAUSE
        log.info("%s: the simulated people stop after %s events", self.scene.name, self.events)

    async def come(self) -> None:
        """Simulate one guest, a rating of an earlier one, and now and then the teacher."""
        await self._decide()
        await self._rate(LAG)
        await self._look(AUDITS_LEFT)

    def _later(self, pause: float, error: Exception) -> float:
        pause = min(LONGEST_PAUSE, max(1.0, 2.0 * pause))
        log.warning(
            "%s: a simulated guest gave up, the next comes in %g s: %s",
            self.scene.name,
            pause,
            error,
        )
        return pause

    # -- what they do ------------------------------------------------------------------------

    async def _decide(self) -> None:
        """Decide for one guest, who will rate what was played."""
        guest = self.scene.guest(self._rng)
        self._guests += 1
        body = {"context": dict(guest.context), "propensity": True}
        made = await self._call(self._program, "POST /v1/agents/{agent}/decisions", body)
        self.events = max(self.events, made["version"])
        arm = made["arm"]
        if arm is not None:
            id = str(made["id"])
            self.remember(id, guest.context, arm)
            self._rating.append((id, self.scene.reward(guest, arm)))

    async def _rate(self, left: int) -> None:
        """Rate for all but the last few who came."""
        due = []
        while len(self._rating) > left:
            id, value = self._rating.popleft()
            endpoint = "POST /v1/agents/{agent}/decisions/{id}/reward"
            due.append(self._call(self._program, endpoint, {"value": value}, id=id))
        await asyncio.gather(*due)

    async def _look(self, audits_left: int) -> None:
        """Run the teacher, if it is time again."""
        if self._guests >= self._answer_at:
            self._answer_at = self._guests + AN_ANSWER
            await self._help()
        if self._guests >= self._judge_at:
            self._judge_at = self._guests + A_JUDGEMENT
            await self._judge(audits_left)

    async def _help(self) -> None:
        """Answer the oldest question, if many wait."""
        found = await self._call(
            self._teacher, "GET /v1/agents/{agent}/questions", query={"limit": 1}
        )
        if found.total > QUESTIONS_LEFT:
            await self._answer(found.questions[0])

    async def _answer(self, question: Any) -> None:
        allowed = self.scene.allowed(question.context, question.arm)
        body = {"answer": "allowed" if allowed else "denied", "by": ADA}
        endpoint = "POST /v1/agents/{agent}/questions/{id}/answer"
        # Whoever visits may have answered it meanwhile.
        with contextlib.suppress(BridleError):
            await self._call(self._teacher, endpoint, body, id=str(question.id))

    async def _judge(self, left: int) -> None:
        """Judge the audits that wait, but for the last few."""
        found = await self._call(
            self._teacher, "GET /v1/agents/{agent}/audit", query={"limit": 100}
        )
        some = found.pending[: max(0, found.pending_total - left)]
        # What nobody here has seen is left to people.
        seen = [id for id in (str(one.decision) for one in some) if id in self._known]
        await asyncio.gather(*map(self._say, seen))

    async def _say(self, id: str) -> None:
        context, arm = self._known[id]
        body = {"allowed": self.scene.allowed(context, arm), "by": ADA}
        endpoint = "POST /v1/agents/{agent}/audits/{id}/answer"
        with contextlib.suppress(BridleError):
            await self._call(self._teacher, endpoint, body, id=id)

    async def _call(
        self, hand: ApiCaller, endpoint: str, body: Any = None, *, query: Any = None, **path: str
    ) -> Any:
        return await hand.call(endpoint, body, query=query, agent=self.scene.name, **path)
