"""The counts of `tools.house`, on small packages made for the purpose."""

from __future__ import annotations

from xml.etree import ElementTree

import pytest

from tools import house

SVG = "{http://www.w3.org/2000/svg}"


@pytest.fixture
def package(tmp_path):
    """A function that writes a package of these modules and looks at it."""

    def write(**texts: str) -> house.House:
        folder = tmp_path / "pack"
        for name, text in {"__init__": "", **texts}.items():
            path = folder.joinpath(*name.split("__in__")).with_suffix(".py")
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(text, encoding="utf-8")
        return house.look(folder)

    return write


def test_a_module_with_one_importer_is_counted_and_named(package):
    found = package(
        a="from pack.b import x\nfrom pack import c\n",
        b="x = 1\n",
        c="from pack.b import x\n",
        d="import pack.a\nfrom pack import nothing\n",
    )
    assert found.single == {"pack.c": "pack.a", "pack.a": "pack.d"}
    assert found.counts()["modules with one importer"] == 2
    assert sorted(found.flat) == ["__init__.py", "a.py", "b.py", "c.py", "d.py"]


def test_imports_are_between_modules_and_not_for_types_alone(package):
    found = package(
        a="from typing import TYPE_CHECKING\nif TYPE_CHECKING:\n    from pack.b import X\n"
        "def f():\n    from pack import c\n",
        b="class X: ...\n",
        c="from pack.b import X\n",
    )
    assert set(found.imports) == {("pack.a", "pack.c"), ("pack.c", "pack.b")}


def test_odd_docstrings_are_found_in_functions_and_classes(package):
    found = package(
        a='def f():\n    """Give a number."""\n\nclass B:\n    """Refuse it."""\n',
        b='def f():\n    """Given a number, return it."""\n',
    )
    assert found.odd == ["pack.a:1", "pack.a:4"]
    assert found.missed() == ["odd docstrings"]


def test_a_class_cut_over_files_is_found(package):
    found = package(
        half="class Half:\n    pass\n",
        whole="from pack.half import Half\nclass Whole(Half):\n    pass\n",
        base="class Base:\n    pass\n",
        one="from pack.base import Base\nclass One(Base):\n    pass\n",
        two="from pack.base import Base\nclass Two(Base):\n    pass\n",
    )
    assert found.cut == ["pack.half.Half in pack.whole.Whole"]


@pytest.mark.parametrize(("lines", "counted"), [(70, 0), (71, 1)])
def test_functions_over_seventy_lines_are_listed(package, lines, counted):
    found = package(a="def f():\n" + "    x = 1\n" * lines)
    assert len(found.long) == counted


def test_the_picture_names_every_package_and_draws_every_import(package):
    found = package(
        top='"""The entrance."""\nfrom pack.low import x\nfrom pack.inner__in__ import y\n'.replace(
            "__in__", ".deep"
        ),
        inner__in____init__='"""What is inside."""\n',
        inner__in__deep="y = 2\n",
        low="x = 1\n",
    )
    drawn = house.draw(found, [["top"], ["inner"], ["low"]])
    root = ElementTree.fromstring(drawn)
    texts = {text.text for text in root.iter(f"{SVG}text")}
    assert {"top", "inner", "low", "The entrance", "What is inside"} <= texts
    curves = {path.findtext(f"{SVG}title") for path in root.iter(f"{SVG}path")} - {None}
    assert curves == {"top → inner: 1", "top → low: 1"}


def test_every_package_of_the_contract_is_in_the_picture_of_bridle():
    found = house.look(house.ROOT / "src" / "bridle")
    order = house.layers(house.ROOT / "pyproject.toml")
    packages = {house._top(module) for module in found.lines} - {"bridle"}
    assert packages == {name for layer in order for name in layer}
    root = ElementTree.fromstring(house.draw(found, order))
    texts = {text.text for text in root.iter(f"{SVG}text")}
    assert packages - {"__main__"} <= texts


def test_strict_fails_where_a_bar_is_missed(package, monkeypatch, capsys, tmp_path):
    found = package(a="x = 1\n")
    monkeypatch.setattr(house, "look", lambda _: found)
    picture = tmp_path / "new" / "house.svg"
    monkeypatch.setitem(house.BARS, "files", 1)
    assert house.main(["--brief", "--picture", str(picture)]) == 0
    assert picture.read_text(encoding="utf-8").startswith("<svg")
    assert "files (at most 1)  <- over" in capsys.readouterr().out
    assert house.main(["--strict"]) == 1


def test_strict_passes_where_all_bars_are_met(package, monkeypatch, capsys):
    found = package(a="x = 1\n")
    monkeypatch.setattr(house, "look", lambda _: found)
    assert house.main(["--strict", "--brief"]) == 0
    assert "<- over" not in capsys.readouterr().out
