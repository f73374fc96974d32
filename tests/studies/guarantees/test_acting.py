"""The promise that acts and meters whose coin varies, in small: what is counted and said."""

from __future__ import annotations

import copy
import json

import pytest
from scipy.stats import binom

from bridle.agent.purse import Purse
from bridle_studies.environments import Movies, synthetic_block
from bridle_studies.guarantees.acting import (
    FROZEN,
    on_promise,
    on_varying,
    promise_table,
    varying_table,
)
from bridle_studies.guarantees.audit_trials import COINS
from bridle_studies.guarantees.jobs import Promises
from bridle_studies.guarantees.promise_trials import simulate_promise
from bridle_studies.guarantees.scope import (
    AUDIT_DELTA,
    LAGS,
    LEAST_COIN,
    PLAYERS,
    PROMISE_Q,
    PROMISED,
    SURE,
    Job,
    Scope,
    jobs,
)
from bridle_studies.guarantees.summary import held, most, promised, summary, varied

SCOPE = Scope(sequences=60, varied=1_200, runs=60)
KEYS = ["case", "alpha", "q", "b", "lag", "runs", "mean_E", "bound", "frozen_share_clean"]


@pytest.fixture(scope="module")
def found():
    work = Promises(Movies(synthetic_block(people=5, movies=20, seed=3)), SCOPE)
    todo = [job for job in jobs(SCOPE) if job.part in ("promise", "varied")]
    return json.loads(json.dumps([work.do(job) for job in todo]))


def at(found, case, lag):
    return next(f for f in promised(found) if (f["row"]["case"], f["row"]["lag"]) == (case, lag))


def test_the_rows_are_those_of_the_issue(found):
    rows = summary(found)["promise"]
    assert [(row["case"], row["lag"]) for row in rows] == [
        (p, lag) for p in PLAYERS for lag in LAGS
    ]
    assert {*PLAYERS} == {"always sure", "limits change", "violating pays", "clean"}
    assert {0, 50, 250, 500} == {*LAGS} and (PROMISED, PROMISE_Q) == (0.01, 0.02)
    for row in rows:
        assert [*row] == KEYS and (row["alpha"], row["q"]) == (PROMISED, PROMISE_Q)
        purse = Purse(alpha=PROMISED, q=PROMISE_Q, lag=row["lag"])
        assert row["b"] == purse.b and row["bound"] == purse.bound(20_000) and row["runs"] == 60
        # The same coins at one lag, so the same share.
        assert row["frozen_share_clean"] == at(found, "clean", row["lag"])["frozen_share"]
        assert row["frozen_share_clean"] <= FROZEN


def test_denied_plays_are_few_with_the_promise_and_many_without(found):
    for one in promised(found):
        # One mean passes this with probability 1e-6 at most, and the seed is fixed.
        assert held(one) and one["worst_E"] >= one["row"]["mean_E"]
        assert one["refuted"] >= one["row"]["bound"]
    for lag in LAGS:
        assert at(found, "violating pays", lag)["without"] == SCOPE.horizon
        assert at(found, "clean", lag)["without"] == at(found, "clean", lag)["row"]["mean_E"] == 0.0
        # The mean of 60 runs; an error of 1e-7 for each of 16 sides.
        for case, steps in (("always sure", 20_000), ("limits change", 10_000)):
            total = round(60 * at(found, case, lag)["without"])
            low, high = binom.isf([1 - 1e-7, 1e-7], 60 * steps, SURE)
            assert low <= total <= high
    # Audits that wait would freeze a purse that is not filled for them.
    frozen = [at(found, "clean", lag)["frozen_at_once"] for lag in LAGS]
    assert frozen == sorted(frozen) and frozen[0] == 0.0 and frozen[-1] > 0.5


def test_what_is_counted_is_what_the_trials_count(found):
    work = Promises(Movies(synthetic_block(people=5, movies=20, seed=3)), SCOPE)
    seen = []

    def spy(case, *arguments, **how):
        seen.append((case, arguments, how))
        return simulate_promise(case, *arguments, **how)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("bridle_studies.guarantees.jobs.simulate_promise", spy)
        made = work.do(Job("promise", "limits change", 250))
    case, arguments, how = seen[0]
    assert case == "limits change" and arguments == (PROMISED, PROMISE_Q)
    assert (how["lag"], how["runs"], how["steps"], how["rate"]) == (250, 60, 20_000, SURE)
    assert "fault" not in how and "b" not in how and "adversary" not in how
    again = simulate_promise(case, *arguments, **how)
    assert made["row"] == again.row() and made["worst_E"] == again.worst_E
    assert made == at(found, "limits change", 250)


def test_meters_whose_coin_varies_have_a_row_a_cell(found):
    rows = varied(found)
    assert rows == summary(found)["meter_varying"] and len(rows) == 4 * len(COINS) * 3
    for row in rows:
        assert [*row] == [
            "q",
            "delta",
            "course",
            "coins",
            "delay",
            "sequences",
            "upper_wrong",
            "lower_wrong",
        ]
        assert (row["q"], row["delta"], row["sequences"]) == (LEAST_COIN, AUDIT_DELTA, 60)
        # An error of 1e-6 for all 96 counts.
        top = binom.isf(1e-6 / 96, 60, AUDIT_DELTA)
        assert max(row["upper_wrong"], row["lower_wrong"]) <= top


def test_sentences_and_tables_follow_the_numbers(found):
    good, bad = copy.deepcopy(found), copy.deepcopy(found)
    assert "The promise that acts held" in on_promise(good)
    assert "would have made 20,000" in on_promise(good)
    worst = at(bad, "limits change", 50)
    worst["row"]["mean_E"] = worst["refuted"] + 1.0
    said = on_promise(bad)
    assert "did NOT hold" in said and "limits change, answers 50 steps late" in said
    marks = {(row[0]["text"], row[1]["text"]): row for row in promise_table(bad)["rows"]}
    assert [key for key, row in marks.items() if row[4]["holds"] is False] == [
        ("limits change", "50")
    ]
    # Where nothing is denied, and only there, being frozen is held to what is granted.
    at(bad, "clean", 500)["frozen_share"] = 0.06
    marks = {(row[0]["text"], row[1]["text"]): row for row in promise_table(bad)["rows"]}
    assert marks["clean", "500"][-1] == {"text": "6.0 %", "holds": False}
    assert marks["clean", "0"][-1] == {"text": "0.0 %", "holds": True}
    assert marks["always sure", "0"][-1]["holds"] is None
    assert len(marks) == len(PLAYERS) * len(LAGS)


def test_the_worst_cell_of_each_bound_is_named(found):
    assert "bounds held" in on_varying(found)
    bad = copy.deepcopy(found)
    cells = next(one for one in bad if one["part"] == "varied")["cells"]
    for one in cells:
        one["upper_wrong"] = one["lower_wrong"] = 0
    (worst,) = (
        one
        for one in cells
        if (one["course"], one["coins"], one["delay"]) == ("bursts", "rising", 500)
    )
    top = most(60, AUDIT_DELTA)
    worst["lower_wrong"] = top
    assert "bounds held" in on_varying(bad)
    worst["lower_wrong"] = top + 1
    said = on_varying(bad)
    assert "did NOT hold" in said and f"wrong in 0 and the lower one in {top + 1} of 60" in said
    rows = {row[0]["text"]: row[1:] for row in varying_table(bad)["rows"]}
    assert [cell["text"] for cell in rows["bursts"]] == [
        "0",
        "–",
        f"{top + 1}",
        "rising, 500 late",
    ]
    assert rows["bursts"][2]["holds"] is False and rows["constant"][2]["holds"] is True


def test_a_share_is_zero_only_if_it_is(found):
    changed = copy.deepcopy(found)
    at(changed, "clean", 0)["frozen_share"] = 1e-5
    row = next(row for row in promise_table(changed)["rows"] if row[0]["text"] == "clean")
    assert row[-1]["text"] == "< 0.1 %"
