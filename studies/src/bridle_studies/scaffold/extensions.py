"""Policies, limits and reward models of others in a study, by the names they are registered by.

Jobs run in other processes, on other machines too: there, what is registered by a plug-in is not
yet known. So a study holds names, and every worker loads the plug-in for itself.
"""

from __future__ import annotations

import hashlib
import importlib
import importlib.util
import os
import sys
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path

from bridle import registry
from bridle.agent.config import Json
from bridle.errors import NotPossible, NotRegistered

__all__ = ["Extension", "find_extensions", "load_plugin"]


@dataclass(frozen=True, kw_only=True)
class Extension:
    """Something that is registered, as plain data that travels to workers.

    Attributes
    ----------
    kind, name, version
        As it is registered.
    plugins : tuple of str
        What registers it: paths of files and names of modules; empty for an entry point. Results
        do not depend on where a plug-in is.
    """

    kind: registry.Kind
    name: str
    version: str
    plugins: tuple[str, ...] = field(default=(), compare=False)

    @property
    def label(self) -> str:
        """What results and keys of jobs call it; none of ours has an @ in its name."""
        return f"{self.name}@{self.version}"

    def load(self) -> registry.Registered:
        """Return what is registered, after its plug-ins are loaded, if they were not yet."""
        if registry.find(self.kind, self.name) is None:
            for plugin in self.plugins:
                load_plugin(plugin)
        return registry.require(self.kind, self.name, self.version)

    def to_json(self) -> dict[str, Json]:
        """Return what results depend on, for the manifest."""
        return {"name": self.name, "version": self.version}


def find_extensions(
    kind: registry.Kind, names: Sequence[str], plugins: Sequence[str] = ()
) -> tuple[Extension, ...]:
    """Load plug-ins, and return what is registered by these names.

    Parameters
    ----------
    kind : {"policy", "limits", "reward"}
        What they are.
    names : sequence of str
        What they are registered by, in a plug-in or in an entry point.
    plugins : sequence of str
        Files (`examples/top_few.py`) or modules (`my_package.top_few`) that register them.
    """
    sources = tuple(map(load_plugin, plugins))
    found = []
    for name in dict.fromkeys(names):
        one = registry.find(kind, name)
        if one is None:
            known = ", ".join(registry.registered(kind)) or "none"
            remedy = (
                f"Name the module that registers it: --plugin my_package.module. Known: {known}."
            )
            raise NotRegistered(kind, name, remedy=remedy)
        found.append(Extension(kind=kind, name=name, version=one.version, plugins=sources))
    return tuple(found)


def load_plugin(plugin: str) -> str:
    """Import a file or a module that registers something; return its full path, or its name."""
    is_file = plugin.endswith(".py") or os.sep in plugin
    try:
        if not is_file:
            importlib.import_module(plugin)
            return plugin
        path = Path(plugin).resolve()
        name = f"bridle_plugin_{hashlib.sha256(str(path).encode()).hexdigest()[:16]}"
        spec = importlib.util.spec_from_file_location(name, path)
        if spec is None or spec.loader is None:
            raise ImportError("it is no Python file")
        module = importlib.util.module_from_spec(spec)
        sys.modules[name] = module  # dataclasses look their module up
        spec.loader.exec_module(module)
        return str(path)
    except Exception as error:  # whatever somebody else's module raises
        raise NotPossible(f"The plug-in {plugin!r} cannot be loaded: {error!r}.") from error
