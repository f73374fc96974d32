"""What a world is: tables, the words that people use for what is in them, and where it came from.

Three nouns. An `Origin` says where data came from. A `World` is data with its limits: what a
simulation runs on. A `Recipe` is data whose limits are still to be drawn: the same seed draws the
same world.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from html import escape
from typing import Any, Protocol

import numpy.typing as npt

from bridle.agent.config import Arm, ArmId, Json, the_arms, the_schema
from bridle.errors import InvalidValue
from bridle.kernels.types import Bools, Floats, Ints
from bridle.schema import Feature, Schema
from bridle.simulate import Tables

__all__ = ["Fixed", "Origin", "Recipe", "World"]


@dataclass(frozen=True, kw_only=True)
class Origin:
    """Where data came from, as whoever shows it must say.

    Parameters
    ----------
    title : str
        What the data are called: "MovieLens 1M". Synthetic ones have "synthetic" in it.
    synthetic : bool
        Whether bridle made them up.
    about : str
        What they are and how they came to be, in a sentence or two.
    url, licence : str
        Their page, and what may be done with them.
    files : mapping from name to sha256
        What was read.
    notes : tuple of str
        What was done to them that a reader should know: "3 duplicate ratings: the last counts".
    """

    title: str
    synthetic: bool
    about: str = ""
    url: str = ""
    licence: str = ""
    files: Mapping[str, str] = field(default_factory=dict)
    notes: tuple[str, ...] = ()

    def to_json(self) -> dict[str, Json]:
        """Return it as plain JSON values."""
        return {
            "title": self.title,
            "synthetic": self.synthetic,
            "about": self.about,
            "url": self.url,
            "licence": self.licence,
            "files": dict(self.files),
            "notes": list(self.notes),
        }


@dataclass(frozen=True, eq=False, kw_only=True)
class World:
    """A world as tables, with the words that people use for what is in them.

    Attributes
    ----------
    name : str
        What it is called wherever it is shown.
    origin : Origin
        Where it came from.
    tables : Tables
        M contexts, K arms: contexts, rewards and the truth about the limits.
    schema : Schema
        The features of a context, with units; it reads and writes the rows of `tables.contexts`.
    arms : tuple of K Arm
        Id, label and group of each arm.
    labels : tuple of M str
        A name for each context (a movie's title); may be empty.
    groups : tuple of G str
        The groups of arms, in the order of the rows of `denied`; may be empty.
    denied : array (G, d) of bools, optional
        The limits, where they are of this form: which group is denied contexts with which feature.
    reward_unit : str
        What a reward of 1 stands for: "five stars".
    arm_schema : Schema, optional
        The features of an arm, where arms have some.
    arm_rows : array (K, p), optional
        The features of each arm, encoded.
    items : array (M,) of ints, optional
        Which item each context is about; by default each is an item of its own.
    """

    name: str
    origin: Origin
    tables: Tables
    schema: Schema
    arms: tuple[Arm, ...]
    labels: tuple[str, ...] = ()
    groups: tuple[str, ...] = ()
    denied: Bools | None = None
    reward_unit: str = ""
    arm_schema: Schema | None = None
    arm_rows: Floats | None = None
    items: Ints | None = None

    def __post_init__(self) -> None:
        if self.arm_schema is not None and (
            self.arm_rows is None
            or self.arm_rows.shape != (self.tables.arms, self.arm_schema.width)
        ):
            wanted = f"of shape ({self.tables.arms}, {self.arm_schema.width})"
            raise InvalidValue("arm_rows", "World", wanted, self.arm_rows)
        if len(self.arms) != self.tables.arms:
            raise InvalidValue("arms", "World", f"{self.tables.arms} of them", len(self.arms))
        if self.schema.width != self.tables.features:
            wanted = f"of width {self.tables.features}, as the contexts"
            raise InvalidValue("schema", "World", wanted, self.schema.width)
        if self.labels and len(self.labels) != len(self.tables):
            wanted = f"{len(self.tables)} of them, one for each context"
            raise InvalidValue("labels", "World", wanted, len(self.labels))

    def __repr__(self) -> str:
        made_up = ", synthetic" if self.origin.synthetic else ""
        return f"<World {self.name!r}: {self._sizes()}{made_up}>"

    def _repr_html_(self) -> str:
        rows = {
            "size": self._sizes(),
            "features": ", ".join(feature.name for feature in self.schema.features[:12]),
            "groups": ", ".join(self.groups[:12]),
            "data": self.origin.title,
            "licence": self.origin.licence,
        }
        body = "".join(
            f"<tr><th>{name}</th><td>{escape(text)}</td></tr>"
            for name, text in rows.items()
            if text
        )
        return f"<table><caption>{escape(self.name)}</caption>{body}</table>"

    def _sizes(self) -> str:
        denied = 1.0 - float(self.tables.allowed.mean())
        return (
            f"{len(self.tables):,} contexts of {self.tables.features} features, "
            f"{self.tables.arms} arms, {100 * denied:.0f} % denied"
        )

    @classmethod
    def from_tables(
        cls,
        contexts: npt.ArrayLike,
        rewards: npt.ArrayLike,
        allowed: npt.ArrayLike,
        *,
        name: str = "my world",
        features: Schema | Sequence[Feature] | None = None,
        arms: Iterable[Arm | ArmId] | None = None,
        labels: Sequence[str] = (),
        origin: Origin | None = None,
        reward_unit: str = "",
    ) -> World:
        """Make a world of your own tables.

        Parameters
        ----------
        contexts : array (M, d)
            What can be shown, as the agent's mathematics sees it.
        rewards : array (M, K)
            What each arm earns in each context, in [0, 1].
        allowed : array (M, K) of 0 and 1
            The limits. A context without an allowed arm is taken as it is: a mask abstains there.
        name, origin, labels, reward_unit
            As in `World`.
        features : Schema or features, optional
            What the columns of `contexts` are called; x0, x1, … by default.
        arms : list of Arm or ids, optional
            One for each column of `rewards`; 0, 1, … by default. Groups are read off them.

        Examples
        --------
        >>> world = World.from_tables([[1.0], [0.5]], [[0.2, 0.9], [0.3, 0.1]], [[1, 0], [1, 1]])
        >>> world.tables.arms, world.context(1)
        (2, {'x0': 0.5})
        """
        tables = Tables(contexts, rewards, allowed)  # type: ignore[arg-type]  # it converts
        listed = the_arms(tables.arms if arms is None else arms)
        schema = Schema.plain(tables.features) if features is None else the_schema(features)
        groups = dict.fromkeys(str(arm.group) for arm in listed if arm.group is not None)
        return cls(
            name=name,
            origin=origin or Origin(title=name, synthetic=False, about="Tables of the user's own."),
            tables=tables,
            schema=schema,
            arms=tuple(listed),
            labels=tuple(labels),
            groups=tuple(groups),
            reward_unit=reward_unit,
        )

    def context(self, row: int) -> dict[str, object]:
        """Return a context in words, as an `Agent` with this schema takes it."""
        return self.schema.decode(self.tables.contexts[row])


class Recipe(Protocol):
    """Data from which worlds are drawn: what the data leave to chance comes from a seed."""

    @property
    def name(self) -> str:
        """What its worlds are called: "movies", "warfarin"."""
        ...

    @property
    def origin(self) -> Origin:
        """Where the data came from."""
        ...

    def __len__(self) -> int:
        """Return the number of contexts, the same in every world drawn."""
        ...

    def world(self, seed: int) -> World:
        """Draw a world. Equal seeds give equal worlds, on any machine."""
        ...

    def settings(self) -> dict[str, Json]:
        """Return every choice that shapes the worlds, as plain JSON values."""
        ...


@dataclass(frozen=True, eq=False)
class Fixed:
    """A recipe that always gives the same world: one whose limits stand in the data."""

    fixed: World

    @property
    def name(self) -> str:
        """The world's name."""
        return self.fixed.name

    @property
    def origin(self) -> Origin:
        """The world's origin."""
        return self.fixed.origin

    def __len__(self) -> int:
        return len(self.fixed.tables)

    def world(self, seed: int) -> World:
        """Return the world, whatever the seed."""
        return self.fixed

    def settings(self) -> dict[str, Any]:
        """Return no choices: there are none."""
        return {}
