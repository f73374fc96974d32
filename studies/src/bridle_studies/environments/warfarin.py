"""Warfarin: which level of dose a patient needs, and who may have none at all.

`Patients` are people with a known therapeutic dose, real (`read_patients`) or made up
(`synthetic_patients`). `Warfarin` draws worlds from them: contexts are patients, arms are levels of
the dose and "no dose", and a patient with both of two further conditions may be given no dose.
"""

from __future__ import annotations

import hashlib
from dataclasses import dataclass, field
from functools import cached_property

import numpy as np

from bridle import validation
from bridle.agent.config import Arm, Json
from bridle.errors import InvalidValue
from bridle.kernels.types import Floats
from bridle.schema import Category, Feature, Flag, Number, Schema
from bridle.simulate import Tables
from bridle_studies.environments.world import Origin, World

__all__ = [
    "CONDITIONS",
    "CYP2C9",
    "DOSE",
    "MEDICATIONS",
    "PATIENT_SCHEMA",
    "RACES",
    "UNKNOWN",
    "VKORC1",
    "Patients",
    "Warfarin",
]

UNKNOWN = "unknown"
RACES = ("White", "Asian", "Black", UNKNOWN)
# What the data call them → what we call them, in the order of the columns.
MEDICATIONS = {
    "Aspirin": "aspirin",
    "Acetaminophen or Paracetamol (Tylenol)": "paracetamol",
    "Was Dose of Acetaminophen or Paracetamol (Tylenol) >1300mg/day": "much paracetamol",
    "Simvastatin (Zocor)": "simvastatin",
    "Atorvastatin (Lipitor)": "atorvastatin",
    "Fluvastatin (Lescol)": "fluvastatin",
    "Lovastatin (Mevacor)": "lovastatin",
    "Pravastatin (Pravachol)": "pravastatin",
    "Rosuvastatin (Crestor)": "rosuvastatin",
    "Cerivastatin (Baycol)": "cerivastatin",
    "Amiodarone (Cordarone)": "amiodarone",
    "Carbamazepine (Tegretol)": "carbamazepine",
    "Phenytoin (Dilantin)": "phenytoin",
    "Rifampin or Rifampicin": "rifampin",
    "Sulfonamide Antibiotics": "sulfonamides",
    "Macrolide Antibiotics": "macrolides",
    "Anti-fungal Azoles": "azoles",
    "Herbal Medications, Vitamins, Supplements": "herbal or vitamins",
}
# The genotypes that have a column; the reference (G/G, *1/*1) is all zeros.
VKORC1 = ("A/G", "A/A", UNKNOWN)
CYP2C9 = ("*1/*2", "*1/*3", "*2/*2", "*2/*3", "*3/*3", UNKNOWN)

# Missing height, weight and age are filled with what is usual in the data at hand, so the schema
# has no value for them. All other gaps have one: 0 in every flag, "unknown" for the race.
PATIENT_SCHEMA = Schema(
    [
        Number("age", 0, 9, unit="decade"),  # 1: 10 to 19 years; 9: 90 and more
        Flag("female", missing=False),
        Category("race", RACES, missing=UNKNOWN),
        Number("height", 100, 220, unit="cm"),
        Number("weight", 20, 260, unit="kg"),
        Flag("diabetes", missing=False),
        Flag("heart failure", missing=False),
        Flag("valve replacement", missing=False),
        *(Flag(name, missing=False) for name in MEDICATIONS.values()),
        Flag("smoker", missing=False),
        Category("VKORC1", VKORC1, missing=()),
        Category("CYP2C9", CYP2C9, missing=()),
    ]
)
# mg a week. The highest in the IWPC data is 315; ten times the usual dose is a slip of the pen.
DOSE = validation.FloatRange(0.0, 500.0, open_low=True)
CONDITIONS = ("condition 1", "condition 2")
MAX_PATIENTS = 1_000_000


@dataclass(frozen=True, eq=False, kw_only=True)
class Patients:
    """People with a known therapeutic dose of warfarin.

    Attributes
    ----------
    contexts : array (M, 39)
        What is known of them, as `PATIENT_SCHEMA` encodes it; nothing is missing.
    dose : array (M,)
        Their therapeutic dose, mg a week.
    origin : Origin
        Where they came from.
    """

    contexts: Floats
    dose: Floats
    origin: Origin

    def __post_init__(self) -> None:
        owner = "Patients"
        contexts = validation.matrix(self.contexts, PATIENT_SCHEMA.width, "contexts", owner)
        M = len(contexts)
        if not 1 <= M <= MAX_PATIENTS:
            raise InvalidValue("contexts", owner, f"1 to {MAX_PATIENTS:,} rows", M)
        dose = validation.vector(self.dose, M, "dose", owner)
        wrong = np.flatnonzero(~((dose > DOSE.low) & (dose <= DOSE.high)))
        if wrong.size:
            DOSE.check(float(dose[wrong[0]]), f"dose[{wrong[0]}]", owner)
        object.__setattr__(self, "contexts", contexts)
        object.__setattr__(self, "dose", dose)

    def __len__(self) -> int:
        return len(self.dose)

    def context(self, row: int) -> dict[str, object]:
        """Return a patient in words. A reference genotype (G/G, *1/*1) reads None."""
        return PATIENT_SCHEMA.decode(self.contexts[row])

    @cached_property
    def sha256(self) -> str:
        """Digest of both tables: equal for equal patients, wherever they were read from."""
        digest = hashlib.sha256()
        for table in (self.contexts, self.dose):
            digest.update(np.ascontiguousarray(table, "<f8").tobytes())
        return digest.hexdigest()


@dataclass(frozen=True, eq=False)
class Warfarin:
    """Worlds of patients: two further conditions are drawn, and who has both may get no dose.

    Contexts are the 39 features of a patient and the two conditions. Of the arms low, medium and
    high the one that holds the therapeutic dose earns 1, everything else 0. Where both conditions
    are present all three are denied; "none" is always allowed.

    Parameters
    ----------
    patients : Patients
        Whose doses are to be found.
    p_feature : float, default 0.5
        Probability of either condition, independent of the other and of everything else.
    low_below, high_above : float, default 21 and 49
        Doses, mg a week, below which a dose is low and above which it is high.

    Examples
    --------
    >>> from bridle_studies.environments.patients import synthetic_patients
    >>> recipe = Warfarin(synthetic_patients(patients=100))
    >>> world = recipe.world(seed=1)
    >>> world.tables.contexts.shape, [arm.id for arm in world.arms]
    ((100, 41), ['low', 'medium', 'high', 'none'])
    >>> world.arms[0].label
    'low: under 21 mg/week'
    """

    patients: Patients
    p_feature: float = field(default=0.5, kw_only=True)
    low_below: float = field(default=21.0, kw_only=True)
    high_above: float = field(default=49.0, kw_only=True)

    def __post_init__(self) -> None:
        owner = "Warfarin"
        if not isinstance(self.patients, Patients):
            raise InvalidValue("patients", owner, "Patients", self.patients)
        p = validation.FRACTION.check(self.p_feature, "p_feature", owner)
        high = DOSE.check(self.high_above, "high_above", owner)
        low = DOSE.check(self.low_below, "low_below", owner)
        if low > high:
            raise InvalidValue("low_below", owner, f"at most high_above = {high:g}", low)
        for name, value in (("p_feature", p), ("low_below", low), ("high_above", high)):
            object.__setattr__(self, name, value)

    @property
    def name(self) -> str:
        """What its worlds are called."""
        return "synthetic patients" if self.origin.synthetic else "warfarin"

    @property
    def origin(self) -> Origin:
        """Where the patients came from."""
        return self.patients.origin

    def __len__(self) -> int:
        return len(self.patients)

    @property
    def arms(self) -> tuple[Arm, ...]:
        """The three levels of the dose, and no dose."""
        low, high = f"{self.low_below:g}", f"{self.high_above:g}"
        return (
            Arm("low", f"low: under {low} mg/week", "dose"),
            Arm("medium", f"medium: {low} to {high} mg/week", "dose"),
            Arm("high", f"high: over {high} mg/week", "dose"),
            Arm("none", "no dose", "no dose"),
        )

    @property
    def schema(self) -> Schema:
        """The features of a patient, and the two conditions."""
        further: list[Feature] = [Flag(name) for name in CONDITIONS]
        return Schema([*PATIENT_SCHEMA.features, *further])

    @cached_property
    def rewards(self) -> Floats:
        """1 for the level that holds the therapeutic dose, else 0: (M, 4), in every world."""
        dose = self.patients.dose
        low, high = dose < self.low_below, dose > self.high_above
        levels = np.column_stack([low, ~low & ~high, high, np.zeros_like(low)])
        return levels.astype(np.float64)

    def world(self, seed: int) -> World:
        """Draw who has which condition. Equal seeds give equal worlds."""
        seed = validation.SEED.check(seed, "seed", "Warfarin.world")
        drawn = np.random.default_rng(seed).random((len(self), len(CONDITIONS))) < self.p_feature
        allowed = np.ones(self.rewards.shape, np.bool_)
        allowed[drawn.all(axis=1), :3] = False
        contexts = np.column_stack([self.patients.contexts, drawn.astype(np.float64)])
        return World(
            name=self.name,
            origin=self.origin,
            tables=Tables(contexts, self.rewards, allowed),
            schema=self.schema,
            arms=self.arms,
            groups=("dose", "no dose"),
            reward_unit="the right dose",
        )

    def settings(self) -> dict[str, Json]:
        """Return every choice that shapes the worlds, and the digest of the patients."""
        return {
            "p_feature": self.p_feature,
            "low_below": self.low_below,
            "high_above": self.high_above,
            "patients": len(self),
            "sha256": self.patients.sha256,
        }
