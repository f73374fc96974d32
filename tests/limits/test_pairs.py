"""Limits over pairs: what is taught of one arm serves others, held against sums over all rules."""

from __future__ import annotations

import copy
import itertools
import math

import numpy as np
import pytest

from bridle.errors import CorruptState, InvalidValue
from bridle.limits import PairLimits, joint, limits_from_state, pairs
from bridle.limits.joint import Family, Grid, Side, Space
from bridle.limits.pairs import PairReading
from bridle.schema import Category, Flag, Labels, Number, Schema

BANDS = Schema([Category("band", ["under 13", "teens", "adult"])])
GENRES = ["Horror", "Comedy", "Crime", "Drama"]
FILMS = Schema([Labels("genre", GENRES)])
# All ways to have one or two genres, each twice: two films of a kind.
ROWS = np.array(
    [
        [float(g in pair) for g in range(4)]
        for pair in [*itertools.combinations(range(4), 2), *((g,) for g in range(4))] * 2
    ]
)


def limits_of(kind: str = "auto", rows: np.ndarray = ROWS, **more: object) -> PairLimits:
    return PairLimits(kind=kind, context=BANDS, arm=FILMS, rows=rows, **more)


def answers(n: int, seed: int, arms: int = len(ROWS)) -> list[tuple[np.ndarray, int, bool, int]]:
    """Answers by the rule: no Horror under 13, no Crime with Drama for teens."""
    rng = np.random.default_rng(seed)
    out = []
    for key in range(n):
        band, arm = int(rng.integers(3)), int(rng.integers(arms))
        out.append((np.eye(3)[band], arm, truth(band, ROWS[arm % len(ROWS)]), 1000 + key))
    return out


def truth(band: int, row: np.ndarray) -> bool:
    return not (band == 0 and row[0] > 0.5) and not (band == 1 and row[2] > 0.5 and row[3] > 0.5)


def teach(limits: PairLimits, given: list[tuple[np.ndarray, int, bool, int]]) -> PairLimits:
    for context, arm, allowed, key in given:
        limits.learn(context, arm, allowed, key)
    return limits


def same(a: PairLimits, b: PairLimits) -> bool:
    mine, theirs = a.predict_all(np.eye(3)), b.predict_all(np.eye(3))
    names = ("p", "safe", "possible", "information", "sd")
    return all(np.array_equal(getattr(mine, n), getattr(theirs, n)) for n in names)


# -- terms --


def test_terms_are_words_of_both_sides() -> None:
    space = Space(Side(BANDS), Side(FILMS))
    family = Family(space, (1, 1))
    assert len(family) == 4 * 5 - 1
    held = Grid(space, np.eye(3)[:1], ROWS[:1]).held((1, 1))[0]
    terms = {family.term(t) for t in np.flatnonzero(held)}
    assert terms == {(0,), (3,), (4,), (0, 3), (0, 4)}


def test_words_of_one_category_never_stand_together() -> None:
    assert Side(BANDS).terms(2) == 1 + 3
    assert Side(FILMS).terms(2) == 1 + 4 + 6
    assert Side(FILMS, ["a", "b"]).terms(2) == 1 + 6 + 6 + 8  # a group with a genre, not with one


def test_held_terms_are_those_whose_words_are_all_held() -> None:
    schema = Schema([Flag("f"), Category("c", ["x", "y"]), Labels("l", ["p", "q"])])
    space = Space(Side(schema), Side(FILMS, ["g"]))
    family = Family(space, (2, 2))
    rng = np.random.default_rng(5)
    C = np.array([schema.encode({"f": bool(i % 2), "c": "xy"[i % 2], "l": ["p"]}) for i in (0, 1)])
    A = np.concatenate([ROWS[:3], rng.integers(0, 2, (3, 1))], axis=1).astype(float)
    grid = Grid(space, C, A)
    held = grid.held((2, 2))
    for row, mine in zip(grid.rows, held, strict=True):
        for t in range(len(family)):
            assert mine[t] == all(row[column] > 0.5 for column in family.term(t))


# -- exactness --


def test_few_terms_are_weighed_exactly() -> None:
    """P(allowed) is the sum over all sets of terms, of prior times likelihood."""
    context, arm = Schema([Flag("minor")]), Schema([Flag("horror"), Flag("crime")])
    rows = np.array([[0.0, 0.0], [1.0, 0.0], [0.0, 1.0], [1.0, 1.0]])
    limits = PairLimits(kind="rules", context=context, arm=arm, rows=rows, error=0.05, doubt=0.01)
    family = Family(limits.space, (1, 1))
    assert len(family) == 5
    given = [([1.0], 1, False), ([0.0], 1, True), ([1.0], 2, True), ([1.0], 3, False)]
    for context_row, k, allowed in given:
        limits.learn(context_row, k, allowed)
    logit = family.logits()
    terms = [family.term(t) for t in range(5)]
    total, mass = 0.0, np.zeros((4, 2))
    for chosen in itertools.product([False, True], repeat=5):
        log = sum(x if c else 0.0 for x, c in zip(logit, chosen, strict=True))

        def denied(c: list[float], k: int, chosen: tuple[bool, ...] = chosen) -> bool:
            row = [*c, *rows[k]]
            return any(
                yes and all(row[i] > 0.5 for i in term)
                for yes, term in zip(chosen, terms, strict=True)
            )

        for c, k, allowed in given:
            log += math.log(0.95 if allowed != denied(c, k) else 0.05)
        weight = math.exp(log)
        total += weight
        for k in range(4):
            for x in (0, 1):
                mass[k, x] += weight * (not denied([float(x)], k))
    np.testing.assert_allclose(
        limits.predict_all([[0.0], [1.0]]).p, np.clip(mass / total, 0.001, 0.999), atol=1e-12
    )


def test_predict_all_is_predict_arm_by_arm() -> None:
    limits = teach(limits_of(), answers(25, 1))
    every = limits.predict_all(np.eye(3))
    assert limits.kinds == 10 and every.p.shape == (20, 3)
    for k in range(20):
        one = limits.predict(k, np.eye(3))
        for name in ("p", "safe", "possible", "information", "sd"):
            assert np.array_equal(getattr(one, name), getattr(every, name)[k])
    assert np.array_equal(every.p[:10], every.p[10:])  # equal features, one kind


def test_a_few_pairs_cost_by_the_kinds_that_are_new(monkeypatch: pytest.MonkeyPatch) -> None:
    limits = teach(limits_of(), answers(12, 2))
    looked: list[int] = []
    real = limits._inner.predict

    def counted(grid: Grid) -> object:
        looked.append(len(grid))
        return real(grid)

    monkeypatch.setattr(limits._inner, "predict", counted)
    every = limits.predict_all(np.eye(3)[:1])
    looked.clear()
    found = limits.predict_pairs(np.eye(3)[0], [3, 13, 4])
    assert np.array_equal(found.p, every.p[[3, 13, 4], 0]) and looked == [2]
    limits.predict_pairs(np.eye(3)[0], [14, 3])
    assert looked == [2]
    limits.predict_pairs(np.eye(3)[0], [5])
    assert looked == [2, 1]
    limits.learn(np.eye(3)[0], 3, True)
    limits.predict_pairs(np.eye(3)[0], [3])
    assert looked == [2, 1, 1]


@pytest.mark.parametrize("kind", ["auto", "rules", "logistic"])
def test_many_kinds_are_predicted_in_blocks(kind: str, monkeypatch: pytest.MonkeyPatch) -> None:
    limits = teach(limits_of(kind), answers(12, 2))
    whole = limits.predict_all(np.eye(3))
    monkeypatch.setattr("bridle.limits.joint.BLOCK", 3000)
    parts = limits.predict_all(np.eye(3))
    assert np.array_equal(whole.p, parts.p) and np.array_equal(whole.information, parts.information)


# -- what is learned --


def test_a_rule_over_both_sides_is_learned_and_serves_an_arm_that_comes_later() -> None:
    limits = teach(limits_of("rules", crosses=True), answers(150, 3))
    right = np.array([[truth(b, row) for b in range(3)] for row in ROWS])
    look = limits.predict_all(np.eye(3))
    assert np.array_equal(look.safe, right) and np.array_equal(look.possible, right)
    limits.grow(2, rows=[[1, 1, 1, 0], [0, 1, 1, 1]])  # kinds that nobody was taught about
    assert limits.kinds == 12
    late = limits.predict_all(np.eye(3))
    assert late.safe[20].tolist() == [False, True, True]
    assert late.safe[21].tolist() == [True, False, True]
    assert late.possible[20:].tolist() == late.safe[20:].tolist()


def test_auto_learns_pairs_of_words_within_a_band() -> None:
    limits = teach(limits_of("auto"), answers(200, 4))
    weights = limits.weights()
    assert weights["deep"] > 0.9
    right = np.array([[truth(b, row) for b in range(3)] for row in ROWS])
    assert np.array_equal(limits.predict_all(np.eye(3)).safe, right)


def test_a_group_is_one_more_word_of_an_arm() -> None:
    groups = ["kids" if k % 3 else "late" for k in range(20)]
    limits = limits_of("rules", groups=groups)
    assert limits.kinds == 17  # as groups tell films apart that look alike
    for key in range(60):
        band, arm = key % 3, (7 * key) % 20
        limits.learn(np.eye(3)[band], arm, not (band == 0 and arm % 3 == 0), key)
    look = limits.predict_all(np.eye(3))
    assert np.array_equal(look.safe[:, 0], np.arange(20) % 3 > 0) and look.safe[:, 1:].all()
    assert "late" in limits.readings()[1].denied


def test_a_new_group_is_folded_as_if_it_had_always_been_known() -> None:
    given = answers(20, 5, arms=10)
    late = teach(limits_of("auto", ROWS[:10], groups=["a"] * 10), given)
    late.grow(10, ["b"] * 10, rows=ROWS[10:])
    early = limits_of("auto", ROWS[:10], groups=["a"] * 9 + ["b"])
    early.change(9, ROWS[9], "a")
    early.grow(10, ["b"] * 10, rows=ROWS[10:])
    assert same(late, teach(early, given))


def test_a_number_of_a_context_bounds_a_word_of_an_arm() -> None:
    viewers = Schema([Number("age", 0, 100)])
    limits = PairLimits(kind="auto", context=viewers, arm=FILMS, rows=ROWS)
    rng = np.random.default_rng(6)
    for key in range(160):
        age, arm = float(rng.integers(5, 60)) / 100.0, int(rng.integers(20))
        limits.learn([age], arm, not (ROWS[arm, 0] > 0.5 and age < 0.16), key)
    look = limits.predict_all([[0.08], [0.5]])
    horror = ROWS[:, 0] > 0.5
    assert limits.weights()["bounds"] > 0.9
    assert not look.possible[horror, 0].any()
    assert look.safe[horror, 1].all() and look.safe[~horror, 1].all()


def test_a_number_of_an_arm_is_bounded_too() -> None:
    dishes = Schema([Number("price", 0, 50), Labels("kind", ["fish", "meat"])])
    guests = Schema([Category("club", ["gold", "free"])])
    rng = np.random.default_rng(7)
    rows = np.array([[rng.random(), *np.eye(2)[k % 2]] for k in range(60)])
    limits = PairLimits(kind="auto", context=guests, arm=dishes, rows=rows)
    for key in range(200):
        who, arm = int(rng.integers(2)), int(rng.integers(60))
        limits.learn(np.eye(2)[who], arm, who == 0 or rows[arm, 0] < 0.4, key)
    limits.grow(3, rows=[[0.1, 1, 0], [0.9, 1, 0], [0.9, 0, 1]])
    look = limits.predict_all(np.eye(2))
    assert look.safe[60:].tolist() == [[True, True], [True, False], [True, False]]
    assert not look.possible[61:, 1].any()


def test_what_was_denied_of_these_very_features_is_lowered() -> None:
    limits = teach(limits_of("auto"), [a for a in answers(200, 8) if a[2]])
    band = np.eye(3)[2]
    before = limits.predict(3, [band]).p[0]
    limits.learn(band, 13, False, 9)  # another arm of the kind
    after = limits.predict(3, [band]).p[0]
    assert before > 0.99 and after < 0.95


# -- what arms of equal features have in common --


def of_kinds(pure: bool) -> PairLimits:
    """Teach of twelve kinds of ten arms, in no order that features explain.

    pure: a kind is all allowed or all denied; else half of each kind is.
    """
    rows = np.repeat(np.array([*itertools.product([0.0, 1.0], repeat=4)])[2:14], 10, axis=0)
    limits = limits_of("auto", rows, chains=50)
    fate = np.random.default_rng(31).permutation(12) % 2 == 0
    for key in range(96):
        kind, arm = key % 12, 10 * (key % 12) + key // 12
        yes = bool(fate[kind]) if pure else (kind + key // 12) % 2 == 0
        limits.learn(np.eye(3)[0], arm, yes, key)
    return limits


def test_answers_say_how_much_arms_of_a_kind_have_in_common() -> None:
    pure, mixed = of_kinds(pure=True), of_kinds(pure=False)
    alike = [each._inner.in_common(np.eye(3)[1].tobytes())[0] for each in (pure, mixed)]
    assert alike[0] > 1.5 * alike[1]
    # So an answer about one of a pure kind settles more of the others, and is less dear.
    dear = [each.dearer(np.eye(3)[1]) for each in (pure, mixed)]
    assert (dear[0] < dear[1]).all() and (dear[1] <= math.sqrt(10.0)).all()
    assert np.allclose(dear[0], 1.0 + (math.sqrt(10.0) - 1.0) * (1.0 - alike[0]))


def test_what_was_allowed_of_equal_arms_raises_belief() -> None:
    limits = of_kinds(pure=True)
    band, row = np.eye(3)[0], limits._kinds[0]
    inner = limits._inner
    grid = Grid(limits.space, band[None], row[None])
    place = inner._place[band.tobytes()][row.tobytes()]
    with_them = float(inner.predict(grid).p[0])
    yes, no = inner._counts[band.tobytes()][row.tobytes()]
    shares, own = inner._shares[place], np.array([10.0, 3.0])
    counts, inner._counts = inner._counts, {}
    belief = float(inner.predict(grid).p[0])  # by members, and by how strongly they are read
    inner._counts = counts
    assert math.isclose(shares.sum(), 1.0)
    if not no:
        each = (yes + own * belief) / (yes + own)
        wanted = shares[0] * belief + math.fsum(shares[1:] * each)
        assert math.isclose(with_them, min(wanted, 0.999), rel_tol=1e-9) and with_them >= belief
    else:
        assert with_them < belief


# -- where contexts of one value deviate --


def strict_and_free(limits: PairLimits) -> PairLimits:
    """Teach what no rule explains under 13 and of teens; to adults all is allowed."""
    rng = np.random.default_rng(21)
    for key in range(150):
        limits.learn(np.eye(3)[key % 2], int(rng.integers(20)), bool(rng.random() < 0.6), key)
    for key in range(120):
        limits.learn(np.eye(3)[2], key % 10, True, 1000 + key)
    return limits


def test_a_value_to_which_all_is_allowed_need_not_wait_for_the_others(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    limits = strict_and_free(limits_of("auto", chains=50))
    limits.grow(1, rows=[[1, 1, 1, 1]])
    safe = limits.predict_all(np.eye(3)).safe
    assert safe[:, 2].all() and not safe[:, :2].any()
    monkeypatch.setattr("bridle.limits.joint.MOST_PARTED", 0)
    whole = strict_and_free(limits_of("auto", chains=50))
    assert not whole.predict_all(np.eye(3)).safe[:, 2].all()  # that is what parting is for


def test_parts_are_weighed_as_the_formulas_say() -> None:
    # Of one way with U parts: Σ_m π_m Π_u((1 − η)e^ev + ηZ_u) is what it gave to all answers.
    inner = strict_and_free(limits_of("auto", chains=50))._inner
    prior = np.exp(inner._log_prior)
    gave, weights = [], []
    for at, end, eta in ((0, 1, 0.5), (1, 5, 0.1)):
        e = np.exp(inner._evidence[at:end])
        Z = e @ prior
        each = prior * np.prod((1.0 - eta) * e + eta * Z[:, None], axis=0)
        stays = (1.0 - eta) * e / ((1.0 - eta) * e + eta * Z[:, None])
        kind = each / each.sum()
        weights.append(kind * stays + ((1.0 - stays) @ kind)[:, None] * prior * e / Z[:, None])
        gave.append(each.sum())
    trust = np.array(gave) / sum(gave)
    assert np.allclose(inner._trust, trust, rtol=1e-9, atol=1e-12)
    adult = trust[0] * weights[0][0] + trust[1] * weights[1][2]
    found = inner._weights_in(np.eye(3)[2:])[0].reshape(2, -1).sum(axis=0)
    assert np.allclose(found, adult, rtol=1e-9, atol=1e-12) and math.isclose(found.sum(), 1.0)


def test_flags_part_contexts_too_and_labels_and_long_lists_do_not() -> None:
    many = Category("user", [f"u{i}" for i in range(65)])
    side = Side(Schema([Labels("likes", ["a", "b"]), many, Flag("child"), Category("tv", ["y"])]))
    assert [part.tolist() for part in side.parts] == [[67], [68]]


# -- sentences --


def test_a_word_is_said_to_be_denied_only_where_all_that_is_believed_agrees() -> None:
    limits = teach(limits_of("auto"), answers(200, 4))
    where = {reading.where: reading for reading in limits.readings()}
    assert where["under 13"].denied == ("Horror",)
    # Half of what holds Horror turns out to be allowed: rules alone might still deny it.
    for key in range(12):
        limits.learn(np.eye(3)[0], (0, 6)[key % 2], True, 900 + key)
        for reading in limits.readings():
            band = [i for i, name in enumerate(BANDS.columns) if name.endswith(reading.where)]
            for genre in reading.denied:
                held = [k for k in range(20) if genre in GENRES and ROWS[k, GENRES.index(genre)]]
                # But for the two films and those that look like them: exceptions, by name.
                held = [k for k in held if k % 10 not in (0, 6)]
                p = limits.predict_all(np.eye(3)[band]).p[held]
                assert not held or not reading.where or (p < 0.01).all()
    assert where["under 13"].denied != {r.where: r for r in limits.readings()}["under 13"].denied


def test_sentences_are_grouped_by_words_of_the_context() -> None:
    limits = teach(limits_of("rules", crosses=True), answers(150, 3))
    assert limits.sentences() == ["under 13: not Horror", "teens: not Crime with Drama"]


def test_exceptions_are_named() -> None:
    limits = teach(limits_of("auto"), answers(200, 4))
    limits.learn(np.eye(3)[0], 0, True, 77)  # the band's only Horror film that it may see
    names = [f"film {k}" for k in range(20)]
    (line,) = [line for line in limits.sentences(names) if line.startswith("under 13")]
    assert line.startswith("under 13: not Horror; exceptions: film 0")


def test_what_is_denied_comes_first_and_whole_and_what_is_unsure_last() -> None:
    reading = PairReading("w", tuple("abcdefgh"), tuple("ijklmnop"), (), (0, 9), ("x", "y"))
    assert reading.sentence(["Gremlins"]) == (
        "w: not a, b, c, d, e, f, g or h; probably not x or y; exceptions: Gremlins, arm 9; "
        "unsure (8): i, j, k, l, m and 3 more"
    )


def test_words_that_no_arm_has_together_are_not_said() -> None:
    some = ROWS[[0, 4, 6, 7]]  # Horror and Comedy, Comedy and Drama, Horror, Comedy
    limits = limits_of("rules", rows=some, crosses=True)
    for key, (arm, allowed) in enumerate([(2, True), (3, True), (0, False)]):
        limits.learn(np.eye(3)[0], arm, allowed, key)

    def said() -> str:
        lines = limits.readings()
        return " ".join(word for one in lines for word in (*one.denied, *one.likely, *one.unsure))

    assert "Horror with Comedy" in said() and "Comedy with Drama" in said()
    assert "Crime" not in said() and "Horror with Drama" not in said()
    limits.change(0, ROWS[7])
    assert "Horror with Comedy" not in said() and "Comedy with Drama" in said()


def test_what_is_not_sure_yet_is_probably_denied() -> None:
    limits = limits_of("auto")
    for n, (band, arm, allowed, key) in enumerate(answers(200, 4)):
        limits.learn(band, arm, allowed, key)
        if n % 8:
            continue
        for reading in limits.readings():
            where = [i for i, name in enumerate(BANDS.columns) if name.endswith(reading.where)]
            but = set(limits.kind_of[list(reading.exceptions)].tolist())
            for genre in {*reading.denied, *reading.likely} & {*GENRES}:
                held = [k for k in range(20) if ROWS[k, GENRES.index(genre)]]
                held = [k for k in held if limits.kind_of[k] not in but]
                p = limits.predict_all(np.eye(3)[where]).p[held]
                assert not held or (p < limits.doubt).all() == (genre in reading.denied)


def test_what_every_value_denies_is_said_once() -> None:
    limits = limits_of("auto")
    for key in range(120):
        band, arm = key % 3, key * 7 % 20
        limits.learn(np.eye(3)[band], arm, not ROWS[arm, 0], key)
    assert limits.sentences()[0].startswith("all: not Horror")
    assert all("Horror" not in line for line in limits.sentences()[1:])


def test_an_arm_is_described_by_words_of_contexts() -> None:
    limits = teach(limits_of("rules", crosses=True), answers(150, 3))
    reading = limits.describe(0, BANDS.columns)
    assert reading.denied == ("under 13",) and "teens" in reading.allowed


def test_features_of_an_arm_are_what_denies_it() -> None:
    limits = teach(limits_of("rules", crosses=True), answers(150, 3))
    parts = {p[0][0]: p[2] for p in limits.attribute_arm(0, np.eye(3)[0]).parts}
    assert parts[0] < -0.9 and abs(parts[1]) < 0.05  # Horror, not Comedy
    assert limits.attribute(0, np.eye(3)[0], np.zeros(3)).parts[0][2] < -0.9


def test_novelty_is_the_share_of_words_that_nobody_was_taught_about() -> None:
    limits = limits_of()
    assert (limits.novelty(np.eye(3)[0]) == 1.0).all()
    limits.learn(np.eye(3)[0], 0, True)  # Horror and Comedy
    new = limits.novelty(np.eye(3)[0])
    assert new[0] == 0.0 and 0.0 < new[1] < 1.0
    assert limits.novelty(np.eye(3)[1], np.array([0]))[0] == 3.0 / 5.0


# -- what is taken back, changed and kept --


@pytest.mark.parametrize("kind", ["auto", "rules", "logistic"])
def test_refit_leaves_what_stands(kind: str) -> None:
    given = answers(30, 9)
    limits = teach(limits_of(kind), given)
    arm = given[4][1]
    stands = [a for i, a in enumerate(given) if i != 4]
    mine = [a for a in stands if a[1] == arm]
    limits.refit(
        arm,
        np.array([a[0] for a in mine]).reshape(-1, 3),
        [a[2] for a in mine],
        [a[3] for a in mine],
    )
    assert same(limits, teach(limits_of(kind), stands))


@pytest.mark.parametrize("kind", ["auto", "rules"])
def test_an_answer_that_is_taken_back_leaves_the_bits_of_never_taught(
    kind: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    given = answers(90, 11)
    limits, whole = teach(limits_of(kind), given), list(given)
    folds: list[bytes] = []
    real = joint.Mixture.fold

    def counted(self: joint.Mixture, grid: Grid, allowed: bool, key: int) -> object:
        folds.append(grid.names[0])
        return real(self, grid, allowed, key)

    monkeypatch.setattr(joint.Mixture, "fold", counted)
    for at, most in ((85, 9), (70, 24), (3, 90), (60, 40), (0, 90)):
        gone = whole.pop(at)
        left = [one for one in whole if one[1] == gone[1]]
        folds.clear()
        limits.refit(
            gone[1],
            np.array([one[0] for one in left]).reshape(-1, 3),
            [one[2] for one in left],
            np.array([one[3] for one in left], np.uint64),
        )
        assert not folds  # nobody has asked yet
        mine = limits.copy().to_state()
        assert len(folds) <= most
        theirs = teach(limits_of(kind), whole).to_state()
        assert mine.keys() == theirs.keys()
        assert all(mine[name].tobytes() == theirs[name].tobytes() for name in mine)
    assert len(limits._marks) <= pairs.MOST_MARKS
    limits.learn(np.eye(3)[0], 0, True, 7)
    again = teach(limits_of(kind), [*whole, (np.eye(3)[0], 0, True, 7)])
    assert same(limits, again) and same(copy.deepcopy(limits), again)


def test_refit_all_folds_what_is_given() -> None:
    given = answers(30, 10)
    limits = teach(limits_of(), given)
    limits.refit_all(given[5:])
    assert same(limits, teach(limits_of(), given[5:]))


def test_answers_count_with_the_features_of_then() -> None:
    given = answers(30, 11)
    limits = teach(limits_of(), given)
    before = limits.predict_all(np.eye(3)).p
    limits.change(0, ROWS[5])
    after = limits.predict_all(np.eye(3)).p
    assert np.array_equal(after[1:], before[1:]) and np.array_equal(after[0], before[5])
    arm = given[0][1]
    mine = [a for a in given if a[1] == arm]
    limits.refit(arm, [a[0] for a in mine], [a[2] for a in mine], [a[3] for a in mine])
    assert np.array_equal(limits.predict_all(np.eye(3)).p, after)
    limits.refit_all(given)
    assert np.array_equal(limits.predict_all(np.eye(3)).p, after)


@pytest.mark.parametrize("kind", ["auto", "rules", "logistic"])
def test_state_goes_on_with_the_same_bits(kind: str) -> None:
    given = answers(40, 12)
    limits = teach(limits_of(kind, groups=["a"] * 10 + [None] * 10), given[:30])
    limits.change(2, ROWS[7], "a")
    limits.grow(1, ["new"], rows=[[1, 1, 1, 1]])
    again = limits_from_state("pairs", limits.to_state())
    assert isinstance(again, PairLimits) and same(limits, again)
    assert again.left_out == limits.left_out and again.weights() == limits.weights()
    teach(limits, given[30:])
    teach(again, given[30:])
    assert same(limits, again)
    for name, array in limits.to_state().items():
        assert np.array_equal(array, again.to_state()[name])


def test_a_copy_learns_apart() -> None:
    limits = teach(limits_of(), answers(20, 13))
    twin, before = limits.copy(), limits.predict_all(np.eye(3)).p
    teach(twin, answers(20, 14))
    twin.grow(1, rows=[[1, 1, 1, 1]])
    assert np.array_equal(limits.predict_all(np.eye(3)).p, before) and limits.arms == 20


def test_equal_answers_give_equal_bits_whatever_was_asked_between() -> None:
    given = answers(25, 15)
    plain = teach(limits_of(seed=3), given)
    asked = limits_of(seed=3)
    for context, arm, allowed, key in given:
        asked.predict_pairs(context, [arm])
        asked.readings()
        asked.learn(context, arm, allowed, key)
    assert same(plain, asked)
    assert not same(plain, teach(limits_of(seed=4), given))


def test_damaged_states_are_refused() -> None:
    limits = teach(limits_of(), answers(10, 16))
    state = limits.to_state()
    for name in state:
        with pytest.raises(CorruptState):
            PairLimits.from_state({k: a for k, a in state.items() if k != name})
    spoiled = {
        "kind_of": np.full(20, 99),
        "kinds": np.full_like(state["kinds"], np.nan),
        "said": np.full_like(state["said"], 7),
        "inner/evidence": np.full_like(state["inner/evidence"], np.inf),
        "settings": np.array("{}"),
    }
    for name, array in spoiled.items():
        with pytest.raises(CorruptState):
            PairLimits.from_state({**state, name: array})
    with pytest.raises(CorruptState):
        PairLimits.from_state({**state, "more": np.zeros(1)})


# -- what is refused, and what is left out --


def test_kinds_that_cannot_are_refused() -> None:
    for kind in ("found", "linear", "nonsense"):
        with pytest.raises(InvalidValue):
            limits_of(kind)
    plain = Schema([Number("x", 0, 1)])
    with pytest.raises(InvalidValue, match="rule"):
        PairLimits(kind="rules", context=plain, arm=plain, rows=[[0.5]])


@pytest.mark.parametrize(
    "bad",
    [
        {"rows": [[1.0]]},
        {"rows": [[np.nan] * 4]},
        {"groups": ["a"]},
        {"error": 0.7},
        {"doubt": 0.0},
    ],
)
def test_bad_settings_are_refused(bad: dict[str, object]) -> None:
    with pytest.raises(InvalidValue):
        PairLimits(**{"context": BANDS, "arm": FILMS, "rows": ROWS, **bad})


def test_bad_answers_leave_no_trace() -> None:
    limits = teach(limits_of(), answers(10, 17))
    before = limits.predict_all(np.eye(3)).p
    for bad in (([1, 0], 0, True), ([1, 0, 0], 20, True), ([1, 0, 0], 0, 2), ([1, 0, 0], -1, True)):
        with pytest.raises(InvalidValue):
            limits.learn(*bad)
    with pytest.raises(InvalidValue):
        limits.grow(1)
    with pytest.raises(InvalidValue):
        limits.grow(2, rows=[[1, 0, 0, 0]])
    with pytest.raises(InvalidValue):
        limits.refit(0, [[1, 0, 0]], [True], [])
    assert np.array_equal(limits.predict_all(np.eye(3)).p, before)


def test_many_words_leave_the_deep_rules_out() -> None:
    wide = Schema([Labels("word", [f"w{i}" for i in range(60)])])
    limits = PairLimits(context=wide, arm=wide, rows=np.eye(60))
    assert "deep" not in limits.members and "crosses" in limits.members
    assert any("two words" in line for line in limits.left_out)
    assert any("Logistic limits do not cross" in line for line in limits.left_out)
    huge = Schema([Labels("word", [f"w{i}" for i in range(100)])])
    limits = PairLimits(context=huge, arm=huge, rows=np.eye(100))
    assert list(limits.members) == ["allowed", "logistic", "pooled"]


def test_an_arm_that_nobody_stored_is_judged_by_its_features() -> None:
    limits = teach(limits_of("rules", crosses=True), answers(150, 3))
    look = limits.predict_rows(np.eye(3), [ROWS[0], [1, 1, 1, 1]])
    assert np.array_equal(look.p[0], limits.predict(0, np.eye(3)).p)
    assert look.safe[1].tolist() == [False, False, True]
