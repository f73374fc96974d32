"""Synthetic patients: nobody in them is real.

Who they are is drawn from small tables of shares and moments, read off the 5,528 patients of the
IWPC data with a known dose; their dose follows the dosing formula that the consortium published,
plus chance. Whoever shows them says "synthetic".
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

from bridle import validation
from bridle.kernels.types import Bools, Floats, Ints
from bridle.schema import Schema
from bridle_studies.environments.warfarin import MAX_PATIENTS, PATIENT_SCHEMA, Patients
from bridle_studies.environments.world import Origin

__all__ = ["predicted_dose", "synthetic_patients"]

# Square root of the weekly dose in mg. IWPC, "Estimation of the warfarin dose with clinical and
# pharmacogenetic data", N Engl J Med 360 (2009), appendix S1e: the pharmacogenetic formula.
INTERCEPT = 5.6044
PER_UNIT = {"age": -0.2614, "height": 0.0087, "weight": 0.0128}  # decade, cm, kg
IF_SO = {
    "VKORC1=A/G": -0.8677,
    "VKORC1=A/A": -1.6974,
    "VKORC1=unknown": -0.4854,
    "CYP2C9=*1/*2": -0.5211,
    "CYP2C9=*1/*3": -0.9357,
    "CYP2C9=*2/*2": -1.0616,
    "CYP2C9=*2/*3": -1.9206,
    "CYP2C9=*3/*3": -2.3312,
    "CYP2C9=unknown": -0.2188,
    "race=Asian": -0.1092,
    "race=Black": -0.2760,
    "race=unknown": -0.1032,
    "amiodarone": -0.5503,
}
INDUCER, INDUCERS = 1.1816, ("carbamazepine", "phenytoin", "rifampin")
# Standard deviation of the square root about the formula, on 4,386 complete patients.
RESIDUAL = 1.02
# mg a week: the least and the most in the data are 2.1 and 315.
LEAST, MOST = 2.0, 315.0

# What follows is read off the IWPC data (PharmGKB, CC BY-SA 4.0), patients with a known dose, as
# tests/studies/environments/test_patients.py does it: shares to three digits, moments to one.
RACES = {"White": 0.537, "Asian": 0.293, "Black": 0.084, "unknown": 0.086}
AGES = {1: 0.003, 2: 0.022, 3: 0.039, 4: 0.097, 5: 0.192, 6: 0.245, 7: 0.278, 8: 0.118, 9: 0.006}
FEMALE = 0.417
# Mean and standard deviation of height (cm) and weight (kg): men, then women.
BODIES = {
    "White": (((176.7, 7.6), (89.6, 19.1)), ((162.2, 7.2), (76.2, 19.0))),
    "Asian": (((165.6, 6.6), (65.8, 11.2)), ((154.1, 6.3), (55.3, 9.9))),
    "Black": (((178.4, 7.7), (96.7, 26.8)), ((164.0, 7.0), (89.3, 27.2))),
    "unknown": (((171.1, 8.3), (85.0, 21.2)), ((159.5, 7.5), (70.0, 17.5))),
}
TOGETHER = 0.37  # correlation of height and weight within these eight
# Genotypes, by race; the rest has the reference, G/G and *1/*1.
VKORC1 = {
    "White": {"A/G": 0.341, "A/A": 0.104, "unknown": 0.296},
    "Asian": {"A/G": 0.133, "A/A": 0.697, "unknown": 0.159},
    "Black": {"A/G": 0.132, "A/A": 0.011, "unknown": 0.238},
    "unknown": {"A/G": 0.228, "A/A": 0.061, "unknown": 0.490},
}
CYP2C9 = {
    "White": {
        "*1/*2": 0.199,
        "*1/*3": 0.111,
        "*2/*2": 0.016,
        "*2/*3": 0.021,
        "*3/*3": 0.005,
        "unknown": 0.015,
    },
    "Asian": {"*1/*2": 0.001, "*1/*3": 0.064, "*3/*3": 0.001, "unknown": 0.033},
    "Black": {"*1/*2": 0.050, "*1/*3": 0.019, "unknown": 0.082},
    "unknown": {
        "*1/*2": 0.190,
        "*1/*3": 0.075,
        "*2/*2": 0.013,
        "*2/*3": 0.008,
        "*3/*3": 0.006,
        "unknown": 0.006,
    },
}
# Share of all patients of whom it is said; where nothing is said it counts as not so.
FLAGS = {
    "diabetes": 0.108,
    "heart failure": 0.129,
    "valve replacement": 0.182,
    "aspirin": 0.160,
    "paracetamol": 0.089,
    "much paracetamol": 0.001,
    "simvastatin": 0.098,
    "atorvastatin": 0.040,
    "fluvastatin": 0.002,
    "lovastatin": 0.006,
    "pravastatin": 0.012,
    "rosuvastatin": 0.003,
    "cerivastatin": 0.000,
    "amiodarone": 0.048,
    "carbamazepine": 0.005,
    "phenytoin": 0.004,
    "rifampin": 0.001,
    "sulfonamides": 0.003,
    "macrolides": 0.001,
    "azoles": 0.003,
    "herbal or vitamins": 0.167,
    "smoker": 0.075,
}

COUNT = validation.IntRange(1, MAX_PATIENTS)
AT = {column: i for i, column in enumerate(PATIENT_SCHEMA.columns)}
MEASURES = Schema([PATIENT_SCHEMA.place(name)[0] for name in PER_UNIT])


def synthetic_patients(*, patients: int = 5_528, seed: int = 0) -> Patients:
    """Make up patients. Equal arguments give equal patients.

    Race, age, sex and every flag are drawn by their shares, independently of each other; height
    and weight are normal given sex and race, clipped to the ranges of `PATIENT_SCHEMA`; genotypes
    are drawn given the race (VKORC1 A/A is the rule among Asian patients and rare among Black
    ones). The square root of the dose is that of `predicted_dose` plus N(0, 1.02), and the dose is
    clipped to 2 to 315 mg a week.

    Parameters
    ----------
    patients : int, default 5528
        How many; as many as in the real data by default.
    seed : int, default 0
        Which of these.

    Examples
    --------
    >>> made = synthetic_patients(patients=1000, seed=1)
    >>> made.contexts.shape, made.origin.title
    ((1000, 39), 'synthetic patients')
    >>> made.context(0)["height"], made.context(0)["VKORC1"]
    (140.0, 'A/A')
    """
    owner = "synthetic_patients"
    M = COUNT.check(patients, "patients", owner)
    seed = validation.SEED.check(seed, "seed", owner)
    # A stream a part: another table for one of them leaves the others as they are.
    parts = np.random.default_rng(seed).spawn(7)
    for_race, for_age, for_sex, for_body, for_genes, for_flags, for_chance = parts
    contexts = np.zeros((M, PATIENT_SCHEMA.width))
    race = _draw(RACES, M, for_race)
    contexts[np.arange(M), AT["race=White"] + race] = 1.0
    female = for_sex.random(M) < FEMALE
    contexts[:, AT["female"]] = female
    ages = np.array([*AGES], dtype=np.float64)[_draw(AGES, M, for_age)]
    measured = np.column_stack([ages, _bodies(race, female, for_body)])
    contexts[:, [AT[name] for name in PER_UNIT]] = MEASURES.encode_many(measured)
    for gene, table in (("VKORC1", VKORC1), ("CYP2C9", CYP2C9)):
        for i, shares in enumerate(table.values()):
            everyone = np.flatnonzero(race == i)
            rest = {"": 1.0 - sum(shares.values())}
            drawn = _draw({**shares, **rest}, len(everyone), for_genes)
            for j, kind in enumerate(shares):
                contexts[everyone[drawn == j], AT[f"{gene}={kind}"]] = 1.0
    rates = np.array([*FLAGS.values()])
    columns = [AT[name] for name in FLAGS]
    contexts[:, columns] = for_flags.random((M, len(rates))) < rates
    root = np.sqrt(predicted_dose(contexts)) + for_chance.normal(0.0, RESIDUAL, M)
    dose = np.clip(np.maximum(root, 0.0) ** 2, LEAST, MOST).round(2)
    return Patients(
        contexts=contexts,
        dose=dose,
        origin=Origin(
            title="synthetic patients",
            synthetic=True,
            about="Made up by bridle: features drawn by the shares of the IWPC data, the dose by "
            "the formula that the IWPC published in 2009, plus chance.",
            url="https://www.pharmgkb.org/downloads",
            licence="Shares and moments from PharmGKB, CC BY-SA 4.0",
            notes=(f"{M:,} patients, seed {seed}",),
        ),
    )


def predicted_dose(contexts: Floats) -> Floats:
    """Return the dose (mg a week) that the IWPC's pharmacogenetic formula predicts: (M,).

    Parameters
    ----------
    contexts : array (M, 39)
        Patients, as `PATIENT_SCHEMA` encodes them.

    Examples
    --------
    >>> who = {"age": 6, "female": False, "race": "White", "height": 180, "weight": 80}
    >>> predicted_dose(PATIENT_SCHEMA.encode_many([who, who | {"VKORC1": "A/A"}])).round(1)
    array([43.9, 24.3])
    """
    contexts = validation.matrix(contexts, PATIENT_SCHEMA.width, "contexts", "predicted_dose")
    root = np.full(len(contexts), INTERCEPT)
    for feature in MEASURES.features:
        low, high = getattr(feature, "low", 0.0), getattr(feature, "high", 1.0)
        root += PER_UNIT[feature.name] * (low + (high - low) * contexts[:, AT[feature.name]])
    for column, effect in IF_SO.items():
        root += effect * contexts[:, AT[column]]
    induced = contexts[:, [AT[name] for name in INDUCERS]].max(axis=1)
    root = np.maximum(root + INDUCER * induced, 0.0)
    dose: Floats = root**2
    return dose


def _draw(shares: Mapping[Any, float], M: int, rng: np.random.Generator) -> Ints:
    """Draw M times which of them, by their shares; what rounding left over is spread."""
    p = np.array([*shares.values()])
    return rng.choice(len(p), size=M, p=p / p.sum()).astype(np.int64)


def _bodies(race: Ints, female: Bools, rng: np.random.Generator) -> Floats:
    """Draw height and weight: (M, 2)."""
    table = np.array([*BODIES.values()])  # race, sex, height or weight, mean or spread
    moments = table[race, female.astype(np.int64)]
    first, second = rng.normal(size=(2, len(race)))
    shared = np.column_stack([first, TOGETHER * first + np.sqrt(1.0 - TOGETHER**2) * second])
    drawn = (moments[..., 0] + moments[..., 1] * shared).round(1)
    ends = [(getattr(f, "low", 0.0), getattr(f, "high", 0.0)) for f in MEASURES.features[1:]]
    low, high = np.array(ends).T
    clipped: Floats = np.clip(drawn, low, high)
    return clipped
