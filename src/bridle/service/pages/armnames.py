"""Arms as people name them in a form: by id, or by a label of their own."""

from __future__ import annotations

from collections.abc import Sequence

from bridle.features import known
from bridle.service.problems import Problem
from bridle.settings import Arm, ArmId

__all__ = ["arm_named", "arm_of_text", "groups_of"]

MOST_LOOKED_AT = 5_000  # names, for one that was meant


def arm_named(arms: Sequence[Arm], text: str) -> Arm:
    """Give the arm of that id, or the only one of that label; refuse what names none."""
    labelled = []
    for arm in arms:
        if str(arm.id) == text:
            return arm
        if arm.label == text:
            labelled.append(arm)
    if len(labelled) == 1:
        return labelled[0]
    if labelled:
        some = ", ".join(repr(arm.id) for arm in labelled[:5])
        raise Problem(
            "invalid_value", f"{len(labelled)} arms are called {text!r:.100}.", field="arm",
            remedy=f"Write the id: {some}.",
        )  # fmt: skip
    names = [str(arm.id) for arm in arms[:MOST_LOOKED_AT]]
    raise Problem(
        "invalid_value", f"There is no arm {text!r:.100}.", field="arm", remedy=known(text, names)
    )


def arm_of_text(arms: Sequence[Arm], text: str) -> ArmId:
    """Give the id of a new arm: a number where the others have numbers."""
    numbered = all(isinstance(arm.id, int) for arm in arms)
    return int(text) if numbered and text.isascii() and text.isdigit() and len(text) < 16 else text


def groups_of(arms: Sequence[Arm]) -> list[str]:
    """Give the names of all groups, each once, in the order of the arms."""
    return list(dict.fromkeys(arm.group for arm in arms if arm.group is not None))
