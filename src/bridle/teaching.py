"""Which arm to ask the teacher about, for the context at hand.

Asking is choosing with the label in the place of the reward, so a way of teaching is a policy over
the limits' own scores: `random` is `Uniform`, `thompson` is `Thompson` on the label.
"""

from __future__ import annotations

from bridle import validate
from bridle.policies import DEFAULT_V, Thompson, Uniform

__all__ = ["TEACHINGS", "teaching_policy"]

TEACHINGS = ("random", "thompson")


def teaching_policy(teaching: str, v: float = DEFAULT_V) -> Uniform | Thompson:
    """Give the policy that picks the arm of the next question.

    Parameters
    ----------
    teaching : {"random", "thompson"}
        `random`: every arm with equal probability. `thompson`: Thompson sampling on the label,
        which asks most about arms that it believes to be allowed.
    v : float, default 0.25
        Spread of the draws of `thompson`.

    Examples
    --------
    >>> teaching_policy("thompson", v=0.1)
    Thompson(v=0.1)
    """
    validate.one_of(teaching, TEACHINGS, "teaching", "teaching_policy")
    return Thompson(v=v) if teaching == "thompson" else Uniform()
