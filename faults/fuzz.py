"""Requests that nobody would write: schemathesis, from the API's own OpenAPI document.

Every route is called with the token of every role, with data that fits the document and with data
that does not. All checks of schemathesis are on. What fits the document may still be refused with
422, as an agent's own features and arms do not stand there. So that more of it goes further than
that, half of the fitting requests are given contexts, arms and ids of an agent that there is.
"""

from __future__ import annotations

import itertools
import random
import tempfile
from collections import Counter
from collections.abc import Callable, Generator
from pathlib import Path
from typing import Any

from faults.starting import Nursery, ServeProcess, nursery_or
from faults.traffic import Line

ROLES = ("admin", "teacher", "agent", "auditor")
AGENT = "movies"
FEW = 2_000
ARMS = ["crime", "nature"]
# What each check of schemathesis counts for here.
COUNTED = {
    "status_code_conformance": "undocumented",
    "content_type_conformance": "undocumented",
    "response_schema_conformance": "undocumented",
    "response_headers_conformance": "undocumented",
    "allow_header_conformance": "undocumented",
    "not_a_server_error": "status_500",
    "negative_data_rejection": "invalid_accepted",
    "ignored_auth": "invalid_accepted",
    "missing_required_header": "invalid_accepted",
    "unsupported_method": "invalid_accepted",
    "object_level_authorization": "invalid_accepted",
    "use_after_free": "invalid_accepted",
}


def fuzz(
    *,
    cases: int,
    seed: int = 1,
    nursery: Nursery | None = None,
    tick: Callable[[int, int, str], None] | None = None,
) -> dict[str, Any]:
    """Send so many requests at least, of all roles, and count what should not be answered so."""
    total: dict[str, Any] = {
        "cases": 0,
        "status_500": 0,
        "undocumented": 0,
        "invalid_accepted": 0,
        "others": 0,
    }
    seen: dict[str, Counter[str]] = {"statuses": Counter(), "routes": Counter(), "roles": Counter()}
    examples: dict[tuple[str, str, str], str] = {}
    with (
        tempfile.TemporaryDirectory(prefix="bridle-fuzz-") as text,
        nursery_or(nursery) as forking,
    ):
        server = ServeProcess(forking, str(Path(text) / "logs.db"), Path(text))
        try:
            server.start()
            tokens = _prepare(server)
            # A short run has one small round for each role; a long one goes on with other seeds.
            short = cases < FEW
            most = max(2, cases // 120) if short else 40
            for number in itertools.count():
                role = ROLES[number % len(ROLES)]
                if total["cases"] >= cases and number >= len(ROLES):
                    break
                for event in _round(server.port, tokens[role], seed + number, most, short):
                    _count(event, role, total, seen, examples)
                    if tick is not None:
                        tick(total["cases"], cases, f"as {role}")
            alive = server.alive()
            server.stop()
        finally:
            server.kill()
        if not alive:
            raise RuntimeError(f"The server ended. Its log ends:\n{server.log()[-3_000:]}")
    return total | {
        "statuses": dict(sorted(seen["statuses"].items())),
        "roles": dict(seen["roles"]),
        "routes": len(seen["routes"]),
        "examples": [
            f"{check}, {label}, as {role}: {text}"
            for (check, label, role), text in examples.items()
        ],
    }


def _prepare(server: ServeProcess) -> dict[str, str]:
    """Make an agent with something of everything, and a token for each role."""
    line = Line(lambda: server.port, server.token)

    def post(path: str, body: Any) -> Any:
        answer = line.send("POST", path, body)
        if answer is None or answer[0] >= 300:
            raise RuntimeError(f"{path} was answered {answer}")
        return answer[1]

    agent = {"arms": ARMS, "features": 2, "seed": 3, "budget": 50, "limits": "rules"}
    post("/v1/agents", {"name": AGENT, "agent": agent})
    home = f"/v1/agents/{AGENT}"
    for number in range(4):
        context = [float(number % 2), 1.0]
        post(
            f"{home}/examples",
            {"context": context, "arm": "crime", "allowed": False, "id": f"e{number}"},
        )
        post(f"{home}/decisions", {"context": context, "id": f"d{number}", "ask": False})
    tokens = {"admin": server.token}
    for role in ROLES[1:]:
        tokens[role] = post("/v1/tokens", {"role": role, "note": "fuzz"})["token"]
    line.close()
    return tokens


def _round(port: int, token: str, seed: int, most: int, short: bool) -> Generator[Any]:
    """Run schemathesis once, as one role."""
    import schemathesis
    from schemathesis.engine import from_schema
    from schemathesis.hooks import unregister

    config = schemathesis.Config.from_dict(
        {
            "seed": seed,
            "headers": {"Authorization": f"Bearer {token}"},
            "continue-on-failure": True,
            "request-timeout": 60,
            "generation": {
                "mode": "all",
                "max-examples": most,
                "no-shrink": True,
                "database": "none",
            },
            # The others try every limit of every field, one after the other, and chains of calls.
            "phases": {
                name: {"enabled": not short} for name in ("examples", "coverage", "stateful")
            },
            "checks": {
                # A value that is too long may be too long for the head of a request, too.
                "negative_data_rejection": {
                    "expected-statuses": [
                        "400",
                        "401",
                        "403",
                        "404",
                        "405",
                        "406",
                        "409",
                        "413",
                        "415",
                        "422",
                        "428",
                        "431",
                        "5xx",
                    ]
                },
                "positive_data_acceptance": {
                    "expected-statuses": ["2xx", "401", "403", "404", "409", "413", "422", "429"]
                },
            },
        }
    )
    schema = schemathesis.openapi.from_url(f"http://127.0.0.1:{port}/openapi.json", config=config)
    rng = random.Random(f"{seed} sense")

    def before_call(context: Any, case: Any, kwargs: Any) -> None:
        if rng.random() < 0.5 and _fits(case):
            _make_sense(case, rng)

    schemathesis.hook(before_call)
    stream = from_schema(schema).execute()
    try:
        yield from stream
    finally:
        stream.stop()
        unregister(before_call)


def _fits(case: Any) -> bool:
    from schemathesis import GenerationMode

    return case.meta is not None and case.meta.generation.mode == GenerationMode.POSITIVE


def _make_sense(case: Any, rng: random.Random) -> None:
    """Give a fitting request contexts, arms and ids that the agent knows.

    In a chain of calls an id comes out of an earlier answer, and stays.
    """
    from schemathesis.generation.meta import TestPhase

    if case.path_parameters and case.meta.phase.name != TestPhase.STATEFUL:
        if "agent" in case.path_parameters:
            case.path_parameters["agent"] = AGENT
        if "id" in case.path_parameters:
            case.path_parameters["id"] = rng.choice(["e1", "d1", "d2", "1", "2"])
    case.body = _sensible(case.body, rng)


def _sensible(value: Any, rng: random.Random) -> Any:
    if isinstance(value, list):
        return [_sensible(one, rng) for one in value]
    if not isinstance(value, dict):
        return value
    found: dict[str, Any] = {}
    for name, inner in value.items():
        if name == "context":
            found[name] = [rng.random(), 1.0]
        elif name in ("contexts", "pool") and isinstance(inner, list):
            found[name] = [[rng.random(), 1.0] for _ in inner]
        elif name in ("arm", "played") and inner is not None:
            found[name] = rng.choice(ARMS)
        elif name == "among" and inner is not None:
            found[name] = list(ARMS)
        else:
            found[name] = _sensible(inner, rng)
    return found


def _count(
    event: Any,
    role: str,
    total: dict[str, Any],
    seen: dict[str, Counter[str]],
    examples: dict[tuple[str, str, str], str],
) -> None:
    from schemathesis.engine import Status, events

    if isinstance(event, events.FatalError | events.NonFatalError):
        error = event.exception if isinstance(event, events.FatalError) else event.value
        total["others"] += 1
        examples.setdefault(("engine", "-", role), repr(error)[:500])
    if not isinstance(event, events.ScenarioFinished):
        return
    recorder = event.recorder
    for interaction in recorder.interactions.values():
        total["cases"] += 1
        seen["roles"][role] += 1
        status = None if interaction.response is None else interaction.response.status_code
        seen["statuses"][str(status)] += 1
        if status is None:
            total["others"] += 1
            examples.setdefault(("no answer", recorder.label, role), interaction.request.uri)
    seen["routes"][recorder.label] += 1
    for nodes in recorder.checks.values():
        for node in nodes:
            if node.status == Status.FAILURE and node.failure_info is not None:
                total[COUNTED.get(node.name, "others")] += 1
                told = node.failure_info
                text = f"{told.failure.title}: {told.failure.message} {told.code_sample}"
                examples.setdefault((node.name, recorder.label, role), text[:1_500])
