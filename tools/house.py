"""The shape of the package in numbers and as a picture: ``python -m tools.house``.

Prints what is counted in `src/bridle` beside the bars that it is held to, then the modules with a
single importer and the functions over 70 lines, for a person to look at: each may be right, many
are a sign of one concept cut in two. With `--strict` a bar that is missed is an error. With
`--picture FILE` the packages and their imports are drawn as an SVG file (`make house`).
"""

from __future__ import annotations

import argparse
import ast
import re
import sys
import tomllib
from collections import Counter, defaultdict
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from html import escape
from pathlib import Path

ROOT = Path(__file__).parents[1]
LONG = 70  # lines of a function
ODD = re.compile(r"(Give|Say|Refuse|Write down)\b")
# The most there may be of each.
BARS = {
    "files": 163,
    "modules directly in the package": 13,
    "modules with one importer": 32,
    "odd docstrings": 0,
    "classes cut over files": 0,
}


@dataclass(frozen=True)
class Function:
    """A function or method over the length that is looked at."""

    module: str
    name: str
    line: int
    lines: int


@dataclass(frozen=True, kw_only=True)
class House:
    """What was counted in a package.

    Attributes
    ----------
    lines : dict from module to int
        Lines of each file.
    flat : list of str
        Modules directly in the package, `__init__` and `__main__` among them.
    single : dict from module to module
        Modules with exactly one importer, and that importer.
    odd : list of str
        Where docstrings begin with a word that says nothing: `module:line`.
    cut : list of str
        Classes that exist only to be inherited by one class of another file.
    long : list of Function
        Functions over 70 lines, longest first.
    imports : Counter of (module, module)
        Who imports whom when it is loaded or run; imports for types alone are left out.
    about : dict from module to str
        The first line of each module's docstring.
    """

    lines: dict[str, int]
    flat: list[str]
    single: dict[str, str]
    odd: list[str]
    cut: list[str]
    long: list[Function]
    imports: Counter[tuple[str, str]] = field(repr=False)
    about: dict[str, str] = field(repr=False)

    def counts(self) -> dict[str, int]:
        """Return the numbers that have a bar."""
        return {
            "files": len(self.lines),
            "modules directly in the package": len(self.flat),
            "modules with one importer": len(self.single),
            "odd docstrings": len(self.odd),
            "classes cut over files": len(self.cut),
        }

    def missed(self) -> list[str]:
        """Return the names of the bars that are missed."""
        return [name for name, count in self.counts().items() if count > BARS[name]]


def look(package: Path) -> House:
    """Count what there is in a package's folder."""
    paths = {_name(path, package): path for path in sorted(package.rglob("*.py"))}
    texts = {module: path.read_text(encoding="utf-8") for module, path in paths.items()}
    trees = {module: ast.parse(text) for module, text in texts.items()}
    users = _users(trees)
    return House(
        lines={module: len(text.splitlines()) for module, text in texts.items()},
        flat=[path.name for path in sorted(package.glob("*.py"))],
        single={
            module: next(iter(users[module]))
            for module in paths
            if len(users[module]) == 1 and not module.endswith("__main__")
        },
        odd=[
            f"{module}:{node.lineno}"
            for module, tree in trees.items()
            for node in ast.walk(tree)
            if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef)
            and ODD.match(ast.get_docstring(node) or "")
        ],
        cut=_cut_classes(trees, users),
        long=sorted(_long_functions(trees), key=lambda found: -found.lines),
        imports=_imports(trees),
        about={module: _first_line(tree) for module, tree in trees.items()},
    )


def _name(path: Path, package: Path) -> str:
    parts = path.with_suffix("").relative_to(package.parent).parts
    return ".".join(parts).removesuffix(".__init__")


def _first_line(tree: ast.Module) -> str:
    return (ast.get_docstring(tree) or "").partition("\n")[0].rstrip(".")


def _users(trees: Mapping[str, ast.Module]) -> dict[str, set[str]]:
    """Return, for each dotted name, the modules that import it, for types alone or not."""
    users: dict[str, set[str]] = defaultdict(set)
    for module, tree in trees.items():
        for node in ast.walk(tree):
            for name in _named(node):
                users[name].add(module)
    return users


def _named(node: ast.AST) -> list[str]:
    """Return the dotted names that an import may mean: a module, or a name in one."""
    if isinstance(node, ast.ImportFrom) and node.module and not node.level:
        return [node.module, *(f"{node.module}.{alias.name}" for alias in node.names)]
    return [alias.name for alias in node.names] if isinstance(node, ast.Import) else []


def _imports(trees: Mapping[str, ast.Module]) -> Counter[tuple[str, str]]:
    """Return which module imports which; `from package import module` means the module."""
    found: set[tuple[str, str]] = set()
    for module, tree in trees.items():
        for node in _runtime(tree):
            names = [name for name in _named(node) if name in trees]
            deepest = max(names, key=len, default=module)
            if deepest != module:
                found.add((module, deepest))
    return Counter(found)


def _runtime(tree: ast.AST) -> Iterator[ast.AST]:
    """Walk a tree without what stands under `if TYPE_CHECKING:`."""
    for node in ast.iter_child_nodes(tree):
        if not (isinstance(node, ast.If) and "TYPE_CHECKING" in ast.unparse(node.test)):
            yield node
            yield from _runtime(node)


def _long_functions(trees: Mapping[str, ast.Module]) -> Iterator[Function]:
    for module, tree in trees.items():
        for node in ast.walk(tree):
            if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
                lines = (node.end_lineno or node.lineno) - node.lineno
                if lines > LONG:
                    yield Function(module, node.name, node.lineno, lines)


def _cut_classes(trees: Mapping[str, ast.Module], users: Mapping[str, set[str]]) -> list[str]:
    """Return the classes that only one class, in another file, inherits and nobody else imports."""
    homes = {
        (module, node.name): node
        for module, tree in trees.items()
        for node in tree.body
        if isinstance(node, ast.ClassDef)
    }
    heirs: dict[tuple[str, str], list[str]] = defaultdict(list)
    for module, tree in trees.items():
        origin = {
            alias.asname or alias.name: (node.module, alias.name)
            for node in ast.walk(tree)
            if isinstance(node, ast.ImportFrom) and node.module
            for alias in node.names
        }
        for node in ast.walk(tree):
            if isinstance(node, ast.ClassDef):
                for base in node.bases:
                    home = origin.get(ast.unparse(base).partition("[")[0])
                    if home in homes:
                        heirs[home].append(f"{module}.{node.name}")
    return [
        f"{module}.{name} in {heirs[module, name][0]}"
        for (module, name), node in homes.items()
        if len(heirs[module, name]) == 1
        and users.get(f"{module}.{name}", set()) == {heirs[module, name][0].rpartition(".")[0]}
        and not any("Protocol" in ast.unparse(base) for base in node.bases)
    ]


# -- the picture ---------------------------------------------------------------------------------

ROW, BOX, LEFT, TEXT, RIGHT, TOP = 46, 132, 206, 24, 560, 96
INK, FAINT, LINE = "#1f2933", "#6b7785", "#d9dee4"
# From the entrances down to the ground: a colour a band of layers.
BANDS = ("#8a4fa3", "#3b6fb6", "#13806f", "#b0641b", "#5b6570")
FONT = "'Liberation Sans', Arial, Helvetica, 'DejaVu Sans', sans-serif"


def layers(pyproject: Path) -> list[list[str]]:
    """Return the layers of the import contract, highest first."""
    settings = tomllib.loads(pyproject.read_text(encoding="utf-8"))
    contracts = settings["tool"]["importlinter"]["contracts"]
    ordered = next(one["layers"] for one in contracts if one["type"] == "layers")
    return [[name.strip() for name in layer.split("|")] for layer in ordered]


def draw(house: House, order: Sequence[Sequence[str]]) -> str:
    """Return an SVG picture: a row a package, highest layer first; a curve an import, downwards."""
    names = [(name, layer) for layer, row in enumerate(order) for name in row if name != "__main__"]
    lines, files = Counter[str](), Counter[str]()
    about: dict[str, str] = {}
    for module, count in house.lines.items():
        top = _top(module)
        lines[top] += count
        files[top] += 1
        if module.count(".") == 1:
            about[top] = house.about[module]
    weights = Counter(
        (_top(user), _top(used)) for user, used in house.imports if _top(user) != _top(used)
    )
    rows = {name: TOP + ROW * place for place, (name, _) in enumerate(names)}
    band = {
        name: BANDS[min(layer * len(BANDS) // len(order), len(BANDS) - 1)] for name, layer in names
    }
    width, height = LEFT + BOX + TEXT + RIGHT, TOP + ROW * len(names) + 20
    parts = [
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {width} {height}" '
        f'width="{width}" height="{height}" role="img" font-family="{FONT}">',
        "<title>The packages of bridle and their imports</title>",
        f'<rect width="{width}" height="{height}" fill="#fbfcfd"/>',
        f'<text x="{LEFT}" y="34" font-size="20" font-weight="700" fill="{INK}">'
        "The packages of bridle</text>",
        f'<text x="{LEFT}" y="56" font-size="12.5" fill="{FAINT}">Imports go down only: a curve '
        "leaves the package that imports and ends at the one imported.</text>",
        f'<text x="{LEFT}" y="73" font-size="12.5" fill="{FAINT}">The thicker, the more modules '
        f"import. {len(house.lines)} files, {sum(house.lines.values()):,} lines.</text>",
    ]
    for name, layer in names[1:]:
        if layer != names[[n for n, _ in names].index(name) - 1][1]:
            y = rows[name] - 4
            parts.append(
                f'<line x1="{LEFT}" x2="{width - 20}" y1="{y}" y2="{y}" stroke="{LINE}" '
                'stroke-width="1"/>'
            )
    # Long curves first, so that short ones, which are read more easily, lie on top.
    for (user, used), weight in sorted(
        weights.items(), key=lambda edge: rows.get(edge[0][0], 0) - rows.get(edge[0][1], 0)
    ):
        if user in rows and used in rows:
            parts.append(_curve(rows[user], rows[used], weight, band[user], user, used))
    parts += [
        _box(name, rows[name], band[name], files[name], lines[name], about.get(name, ""))
        for name, _ in names
    ]
    return "\n".join([*parts, "</svg>"]) + "\n"


def _top(module: str) -> str:
    """Return the package or module directly in bridle that holds a module."""
    return module.split(".")[1] if "." in module else module


def _curve(user: int, used: int, weight: int, colour: str, name: str, other: str) -> str:
    start, end = user + 27, used + 13  # leaves a box below its middle, arrives above it
    reach = 26 + 0.62 * abs(end - start) ** 0.86
    middle = LEFT - reach
    return (
        f'<path d="M {LEFT} {start} C {middle:.0f} {start}, {middle:.0f} {end}, {LEFT - 5} {end} '
        f'l 5 0" fill="none" stroke="{colour}" stroke-width="{0.5 + 0.42 * weight**0.5:.2f}" '
        f'stroke-opacity="0.5"><title>{name} → {other}: {weight}</title></path>'
        f'<path d="M {LEFT - 1} {end} l -6 -3 l 0 6 z" fill="{colour}" fill-opacity="0.7"/>'
    )


def _box(name: str, y: int, colour: str, files: int, lines: int, about: str) -> str:
    size = f"{lines:,} lines" if files == 1 else f"{files} files, {lines:,} lines"
    x = LEFT + BOX + TEXT
    return (
        f'<rect x="{LEFT}" y="{y}" width="{BOX}" height="{ROW - 8}" rx="6" fill="#ffffff" '
        f'stroke="{colour}" stroke-width="1.6"/>'
        f'<text x="{LEFT + BOX / 2}" y="{y + 24}" font-size="14" font-weight="700" '
        f'text-anchor="middle" fill="{colour}">{escape(name)}</text>'
        f'<text x="{x}" y="{y + 17}" font-size="12.5" fill="{INK}">{escape(_short(about))}</text>'
        f'<text x="{x}" y="{y + 33}" font-size="11" fill="{FAINT}">{size}</text>'
    )


def _short(text: str, most: int = 84) -> str:
    return text if len(text) <= most else text[: most - 1].rstrip(" ,:;") + "…"


# -- the command ---------------------------------------------------------------------------------


def report(house: House, *, everything: bool = True) -> Iterator[str]:
    """Yield the counts beside their bars, then what a person should look at."""
    yield f"src/bridle: {len(house.lines)} files, {sum(house.lines.values()):,} lines"
    for name, count in house.counts().items():
        mark = "" if count <= BARS[name] else "  <- over"
        yield f"  {count:4} {name} (at most {BARS[name]}){mark}"
    yield f"  {len(house.long):4} functions over {LONG} lines"
    if not everything:
        return
    if house.odd:
        yield "\nDocstrings that begin with Give, Say, Refuse or Write down:"
        yield from (f"  {where}" for where in house.odd)
    if house.cut:
        yield "\nClasses cut over files by inheritance:"
        yield from (f"  {where}" for where in house.cut)
    yield "\nModules with one importer (is each a concept of its own?):"
    yield from (f"  {module}  <-  {user}" for module, user in house.single.items())
    if house.long:
        yield f"\nFunctions over {LONG} lines (does each do one thing?):"
        yield from (f"  {f.lines:4}  {f.module}:{f.line} {f.name}" for f in house.long)


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the command; return what the process should exit with."""
    parser = argparse.ArgumentParser(prog="python -m tools.house", description=__doc__)
    parser.add_argument("--strict", action="store_true", help="exit 1 where a bar is missed")
    parser.add_argument("--brief", action="store_true", help="the counts alone")
    parser.add_argument("--picture", type=Path, metavar="FILE", help="draw the packages as SVG")
    given = parser.parse_args(arguments)
    house = look(ROOT / "src" / "bridle")
    for line in report(house, everything=not given.brief):
        print(line)
    if given.picture is not None:
        given.picture.parent.mkdir(parents=True, exist_ok=True)
        given.picture.write_text(draw(house, layers(ROOT / "pyproject.toml")), encoding="utf-8")
        print(f"\nThe picture is in {given.picture}.")
    return 1 if given.strict and house.missed() else 0


if __name__ == "__main__":
    sys.exit(main())
