"""What a calibration is begun with: contexts out of a csv, or out of the log; and what it costs."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, NamedTuple

from bridle.binomial import contexts_needed, most_broken
from bridle.events import Abstained, Asked, Decided
from bridle.features import Schema
from bridle.service.pages.csvs import read_contexts
from bridle.service.pages.fields import Fields
from bridle.service.pages.page import Visit
from bridle.service.problems import Problem
from bridle.service.promising import MAX_CALIBRATION, Calibrate
from bridle.store.kept import event_of
from bridle.store.records import Store
from bridle.store.writing import Desk

__all__ = ["Cost", "Draft", "cost_of", "draft_of", "latest_contexts"]

MOST_SHOWN = 200_000  # characters of a csv that stand in the form again
PAGE = 1_000  # entries of a log at a time
MOST_ENTRIES = 20_000  # of a log that are looked through for contexts
# What changes the limits: contexts that came before it may have been used for it.
LESSONS = frozenset({"Taught", "Retracted", "Regrouped"})


@dataclass(frozen=True)
class Draft:
    """What a person typed: it is shown again if something is wrong with it."""

    source: str = "log"  # or "csv"
    number: str = "100"
    text: str = ""
    lost: bool = False  # whether there was a csv that is too long to be shown again
    alpha: str = "5"
    delta: str = "10"
    on: str = ""
    note: str = ""

    @classmethod
    def of(cls, form: Fields) -> Draft:
        """Give what stands in a form; a file that was sent stands for what was pasted."""
        upload = form.files.get("file")
        source = form.get("source") or "log"
        if upload is not None and upload.body:
            source = "csv"
            text = upload.body.decode("utf-8-sig", "replace")
        else:
            text = form.get("csv")
        return cls(
            source=source, number=form.get("number"), text=text[:MOST_SHOWN],
            lost=len(text) > MOST_SHOWN, alpha=form.get("alpha"), delta=form.get("delta"),
            on=form.get("on"), note=form.get("note"),
        )  # fmt: skip


class Cost(NamedTuple):
    """What a calibration would take."""

    contexts: int
    most: int  # questions, at most
    affords: int  # contexts that may have a denied arm among those let through


async def draft_of(visit: Visit, draft: Draft) -> dict[str, Any]:
    """Give the fields of `Calibrate`, or refuse what cannot be one."""
    form = visit.form
    alpha = form.number("alpha", low=0.01, high=99.0) / 100.0
    delta = form.number("delta", low=0.01, high=99.0) / 100.0
    if draft.source not in ("log", "csv"):
        raise Problem("invalid_value", "It is not said where the contexts come from.")
    if len(draft.on) > 1_000:
        raise Problem("invalid_value", "Where they come from is longer than 1,000 characters.")
    service, agent = visit.service, visit.agent
    schema = await service.do(agent, lambda desk: desk.kept.agent.schema)
    if draft.source == "log":
        number = form.whole("number", low=1, high=MOST_ENTRIES)
        contexts = await service.aside(
            lambda: latest_contexts(service.store, agent, schema, number)
        )
        remedy = "Wait until more have come since the agent was last taught, or give a csv."
        on = draft.on or f"the last {len(contexts):,} contexts of decisions since the last lesson"
    else:
        upload = form.files.get("file")
        text = upload.text if upload is not None and upload.body else form.get("csv")
        if not text.strip():
            raise Problem("invalid_value", "There is no csv. Choose a file, or paste one.")
        contexts = await service.aside(lambda: read_contexts(schema, text))
        remedy = "Give more of them, or promise less."
        on = draft.on or (upload.name[:200] if upload is not None else "")
    least = contexts_needed(alpha, delta)
    if len(contexts) < least:
        raise Problem(
            "conflict",
            f"There are {len(contexts):,} cases, and {least:,} are the least for this promise.",
            remedy=remedy,
        )
    if len(contexts) > MAX_CALIBRATION:
        raise Problem("invalid_value", f"There are more than {MAX_CALIBRATION:,} contexts.")
    return {"contexts": tuple(contexts), "alpha": alpha, "delta": delta, "on": on}


async def cost_of(visit: Visit, form: Calibrate) -> Cost:
    """Say how many questions a calibration would ask. Nothing is begun."""

    def do(desk: Desk) -> Cost:
        agent = desk.kept.agent
        rows = agent.schema.encode_many(form.contexts)
        asking = agent.certification_of(rows, form.alpha, form.delta, lambda_min=form.lambda_min)
        _, contexts, _, most = asking.progress
        return Cost(contexts, most, most_broken(contexts, form.alpha, form.delta))

    return await visit.service.do(visit.agent, do)


def latest_contexts(store: Store, agent: str, schema: Schema, most: int) -> list[dict[str, Any]]:
    """Give the contexts that decisions met last, none from before the limits changed last.

    Those are fresh: nothing that was taught can come from them. Each counts once, at its first
    entry, whether the agent played, abstained or asked.
    """
    head = store.head(agent)
    last = 0 if head is None else head.seq
    lowest = max(0, last - MOST_ENTRIES)
    found: list[dict[str, Any]] = []
    while last > lowest and len(found) < most:
        after = max(lowest, last - PAGE)
        names = store.names(agent, after, last - after)
        for entry in reversed(store.read(agent, after, last - after)):
            if entry.kind in LESSONS or len(found) == most:
                return found[::-1]
            met = any(name.space == "decision" for name in names.get(entry.seq, ()))
            event = event_of(entry) if met and entry.payload is not None else None
            if isinstance(event, Decided | Abstained | Asked):
                found.append(schema.decode(event.context))
        last = after
    return found[::-1]
