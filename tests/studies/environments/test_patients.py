"""Synthetic patients: their tables, where these come from, and how near to real ones they are."""

from __future__ import annotations

import csv
import os
from collections import Counter
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from bridle.errors import InvalidValue
from bridle_studies.environments import patients as tables
from bridle_studies.environments import warfarin
from bridle_studies.environments.iwpc import FLAGS, read_patients
from bridle_studies.environments.patients import predicted_dose, synthetic_patients
from bridle_studies.environments.warfarin import PATIENT_SCHEMA, Warfarin
from tests.conftest import check_counts

COLUMNS = PATIENT_SCHEMA.columns
# Each of these tests compares about 50 laws: at 1e-8 each, one is wrong once in 2,000,000.
ERROR = 1e-8


@pytest.fixture(scope="session")
def data():
    """The folder with the real data, where there is one."""
    root = Path(__file__).resolve().parents[3]
    data = Path(os.environ.get("BRIDLE_DATA", root.parent / "shared" / "data")) / "warfarin"
    if not data.is_dir():
        pytest.skip(f"the IWPC data are not at {data}; set BRIDLE_DATA to the folder above it")
    return data


@pytest.fixture(scope="module")
def many():
    return synthetic_patients(patients=100_000, seed=1)


def columns_of(feature):
    return [i for i, name in enumerate(COLUMNS) if name.startswith(f"{feature}=")]


def raw(patients, name):
    feature: Any
    feature, at = PATIENT_SCHEMA.place(name)
    return feature.low + (feature.high - feature.low) * patients.contexts[:, at]


def binary(share):
    return [1.0 - share, share]


# --- the tables ---------------------------------------------------------------------------


def test_the_tables_fit_the_schema():
    races = list(warfarin.RACES)
    for table in (tables.RACES, tables.BODIES, tables.VKORC1, tables.CYP2C9):
        assert list(table) == races
    assert sum(tables.RACES.values()) == pytest.approx(1.0, abs=1e-9)
    assert sum(tables.AGES.values()) == pytest.approx(1.0, abs=1e-9)
    for race in races:
        assert set(tables.VKORC1[race]) <= set(warfarin.VKORC1)
        assert set(tables.CYP2C9[race]) <= set(warfarin.CYP2C9)
        assert sum(tables.VKORC1[race].values()) < 1.0 > sum(tables.CYP2C9[race].values())
    assert list(tables.FLAGS) == list(FLAGS.values())


def test_patients_come_by_the_shares_of_the_tables(many):
    # By chi-square, each with an error probability of 1e-8.
    contexts, M = many.contexts, len(many)
    race = contexts[:, columns_of("race")]
    assert (race.sum(axis=1) == 1.0).all()
    check_counts(race.sum(axis=0), [*tables.RACES.values()], ERROR)
    ages = np.bincount(raw(many, "age").round().astype(int), minlength=10)
    check_counts(ages[1:], [*tables.AGES.values()], ERROR)
    shares = {"female": tables.FEMALE, **tables.FLAGS}
    for name, share in shares.items():
        count = contexts[:, COLUMNS.index(name)].sum()
        check_counts([M - count, count], binary(share), ERROR)
    for gene, table in (("VKORC1", tables.VKORC1), ("CYP2C9", tables.CYP2C9)):
        for i, shares in enumerate(table.values()):
            mine = contexts[race[:, i] == 1.0][:, columns_of(gene)]
            counts = [*mine.sum(axis=0), (mine.sum(axis=1) == 0.0).sum()]
            wanted = [shares.get(kind, 0.0) for kind in getattr(warfarin, gene)]
            assert mine.sum(axis=1).max() == 1.0
            check_counts(counts, [*wanted, 1.0 - sum(wanted)], ERROR)


def test_bodies_have_their_moments(many):
    # Six standard errors each, of a mean and of a spread: 32 comparisons alarm falsely with a
    # probability below 1e-7. Clipping moves a weight's mean by up to .2 kg, its spread by .4.
    for i, cells in enumerate(tables.BODIES.values()):
        for female, moments in enumerate(cells):
            mine = many.contexts[:, COLUMNS.index("race=White") + i] == 1.0
            mine &= many.contexts[:, COLUMNS.index("female")] == female
            for name, (mean, spread) in zip(("height", "weight"), moments, strict=True):
                values = raw(many, name)[mine]
                error = 6.0 * spread / np.sqrt(len(values))
                assert values.mean() == pytest.approx(mean, abs=error + 0.2)
                assert values.std() == pytest.approx(spread, abs=error + 0.4)
    height, weight = raw(many, "height"), raw(many, "weight")
    assert (height.min(), height.max()) >= (100.0, 140.0) and height.max() <= 220.0
    assert weight.min() >= 20.0 and weight.max() <= 260.0


def test_the_tables_are_those_of_the_real_data(data):
    with (data / "warfarin.csv").open(encoding="utf-8-sig", newline="") as file:
        everyone = list(csv.DictReader(file))
    rows = [row for row in everyone if row["Therapeutic Dose of Warfarin"] not in ("", "NA")]
    assert len(rows) == 5_528
    theirs = {"White": "White", "Asian": "Asian", "Black": "Black or African American"}
    by_race = {
        race: [row for row in rows if row["Race"] == theirs.get(race, "Unknown")]
        for race in tables.RACES
    }

    def share(of, column, *values):
        return sum(row[column] in values for row in of) / len(of)

    def same(found, written, digits=3):
        # Half a unit of the last digit: rounded, and nothing else.
        assert found == pytest.approx(written, abs=0.5001 * 10**-digits)

    for race, shown in tables.RACES.items():
        same(len(by_race[race]) / len(rows), shown)
    known = [row for row in rows if row["Age"] != "NA"]
    for decade, shown in tables.AGES.items():
        same(share(known, "Age", f"{decade}0 - {decade}9", f"{decade}0+"), shown)
    same(share(rows, "Gender", "female"), tables.FEMALE)
    for column, name in FLAGS.items():
        same(share(rows, column, "1"), tables.FLAGS[name])
    for race, mine in by_race.items():
        vkorc = Counter(row["VKORC1 -1639 consensus"] for row in mine)
        for kind, shown in tables.VKORC1[race].items():
            same(vkorc["NA" if kind == "unknown" else kind] / len(mine), shown)
        cyp = Counter(row["CYP2C9 consensus"] for row in mine)
        regular = {"*1/*1", *warfarin.CYP2C9}
        cyp["unknown"] = sum(n for kind, n in cyp.items() if kind not in regular)
        for kind in warfarin.CYP2C9:
            same(cyp[kind] / len(mine), tables.CYP2C9[race].get(kind, 0.0))
    products = []
    for race, mine in by_race.items():
        for sex, moments in zip(("male", "female"), tables.BODIES[race], strict=True):
            scaled = []
            for column, written in zip(("Height (cm)", "Weight (kg)"), moments, strict=True):
                cells = [row[column] for row in mine if row["Gender"] == sex]
                values = np.array([np.nan if cell in ("", "NA") else float(cell) for cell in cells])
                same(np.nanmean(values), written[0], digits=1)
                same(np.nanstd(values), written[1], digits=1)
                scaled.append((values - written[0]) / written[1])
            products.append(scaled[0] * scaled[1])
    same(np.nanmean(np.concatenate(products)), tables.TOGETHER, digits=2)


# --- the dose -----------------------------------------------------------------------------


def test_the_formula_is_the_published_one():
    # By hand, for a person with everything that the formula knows of.
    plain = {"age": 7, "race": "White", "height": 170, "weight": 70}
    all_of_it = plain | {
        **{"race": "Black", "VKORC1": "A/G", "CYP2C9": "*2/*3"},
        **{"amiodarone": True, "phenytoin": True, "rifampin": True},
    }
    root = 5.6044 - 0.2614 * 7 + 0.0087 * 170 + 0.0128 * 70
    more = root - 0.2760 - 0.8677 - 1.9206 - 0.5503 + 1.1816
    dose = predicted_dose(PATIENT_SCHEMA.encode_many([plain, all_of_it]))
    assert dose == pytest.approx([root**2, more**2], rel=1e-12)
    # A root cannot be negative: its square would grow again.
    tiny = {"age": 9, "height": 100, "weight": 20, "VKORC1": "A/A", "CYP2C9": "*3/*3"}
    least = predicted_dose(PATIENT_SCHEMA.encode_many([tiny, tiny | {"amiodarone": True}]))
    assert least[0] > 0.0 == least[1]


def test_doses_follow_the_formula_but_for_chance(many):
    gap = np.sqrt(many.dose) - np.sqrt(predicted_dose(many.contexts))
    # Standard errors: .0032 of the mean, .0023 of the spread; .02 is 6 of them and more.
    assert gap.mean() == pytest.approx(0.0, abs=0.02)
    assert gap.std() == pytest.approx(tables.RESIDUAL, abs=0.02)
    assert many.dose.min() >= tables.LEAST and many.dose.max() <= tables.MOST


def facts(patients):
    formula, root = np.sqrt(predicted_dose(patients.contexts)), np.sqrt(patients.dose)
    return {
        "levels": Warfarin(patients).rewards.mean(axis=0)[:3],
        "mean": patients.dose.mean(),
        "spread": patients.dose.std(),
        "explained": 1.0 - ((root - formula) ** 2).mean() / root.var(),
    }


def test_the_doses_are_near_those_of_real_patients(many):
    # SPEC 4.1: .2704, .6118, .1178. In 100,000 patients a share's standard error is .0016: what is
    # seen here (.270, .599, .131) is 10 of them and more within the bound of .03.
    assert facts(many)["levels"] == pytest.approx([0.2704, 0.6118, 0.1178], abs=0.03)


def test_synthetic_and_real_patients_have_the_same_shape(many, data):
    real, made = facts(read_patients(data)), facts(many)
    assert made["levels"] == pytest.approx(real["levels"], abs=0.03)
    assert made["mean"] == pytest.approx(real["mean"], abs=1.0)
    # Real doses have a longer tail: one of 315 mg.
    assert made["spread"] == pytest.approx(real["spread"], abs=2.0)
    assert made["explained"] == pytest.approx(real["explained"], abs=0.05)


# --- the rest -----------------------------------------------------------------------------


def test_equal_arguments_give_equal_patients():
    one, two = (synthetic_patients(patients=200, seed=4) for _ in range(2))
    assert one.contexts.tobytes() == two.contexts.tobytes()
    assert one.dose.tobytes() == two.dose.tobytes()
    assert one.sha256 != synthetic_patients(patients=200, seed=5).sha256
    assert len(synthetic_patients()) == 5_528


def test_every_patient_comes_back_in_words():
    made = synthetic_patients(patients=300, seed=2)
    for row in range(300):
        context = made.context(row)
        assert PATIENT_SCHEMA.encode(context).tobytes() == made.contexts[row].tobytes()


def test_it_says_that_they_are_synthetic():
    origin = synthetic_patients(patients=10, seed=3).origin
    assert origin.synthetic and origin.title == "synthetic patients"
    assert "Made up by bridle" in origin.about and "IWPC" in origin.about
    assert origin.notes == ("10 patients, seed 3",)


@pytest.mark.parametrize(
    ("wrong", "message"),
    [
        ({"patients": 0}, "'patients' parameter of synthetic_patients must be an int"),
        ({"patients": 10**7}, r"\[1, 1000000\]"),
        ({"patients": 2.5}, "'patients'"),
        ({"seed": -1}, "'seed'"),
    ],
)
def test_bad_input_is_refused(wrong, message):
    with pytest.raises(InvalidValue, match=message):
        synthetic_patients(**wrong)


def test_predicted_dose_takes_patients_only():
    with pytest.raises(InvalidValue, match="39 columns"):
        predicted_dose(np.zeros((2, 41)))
