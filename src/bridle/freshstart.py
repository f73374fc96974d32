"""Whether what was learned of the limits should be begun anew: they seem to have changed."""

from __future__ import annotations

from dataclasses import dataclass

from bridle.knowledge import Knowledge

__all__ = ["FreshStart", "fresh_start_of"]


@dataclass(frozen=True)
class FreshStart:
    """A proposal to begin anew, in sentences. `Agent.start_anew` takes it up.

    Attributes
    ----------
    why, kept, lost : str
        What speaks for it, what stays as it is, and what is forgotten.
    """

    why: str
    kept: str
    lost: str

    def __str__(self) -> str:
        return f"{self.why} {self.kept} {self.lost}"


def fresh_start_of(know: Knowledge) -> FreshStart | None:
    """Return what speaks for beginning anew; None if nothing does."""
    reasons = []
    if know.contradictions:
        many = "A check has" if know.contradictions == 1 else f"{know.contradictions:,} checks have"
        reasons.append(f"{many} denied what a teacher had allowed before.")
    drift = know.believing.drift
    if drift is not None and drift.rejected:
        reasons.append(
            f"The teacher's answers no longer come as expected: seen at answer "
            f"{drift.rejected_at:,} of {drift.answers:,}; by chance alone that happens in "
            f"{drift.level:g} of all cases at most."
        )
    if not reasons:
        return None
    allowed = sum(example.allowed for example in know.examples.values())
    denied = len(know.examples) - allowed
    return FreshStart(
        why=" ".join(reasons),
        kept=f"Kept: {_answers(denied)} that say “not allowed”, declared rules, arms, and all that "
        "was learned from rewards.",
        lost=f"Forgotten: {_answers(allowed)} that say “allowed”, and what was concluded from "
        "them. Much will be in doubt again, and asked about.",
    )


def _answers(n: int) -> str:
    return "1 answer" if n == 1 else f"{n:,} answers"
