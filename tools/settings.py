"""The table of an agent's settings in the docs: ``python -m tools.settings`` writes it anew.

It follows from `bridle.agent.config`, which declares them. A test holds the two together.
"""

from __future__ import annotations

import inspect
from pathlib import Path

from bridle import Agent
from bridle.agent.config import REQUIRED, SETTINGS, Setting

PAGE = Path(__file__).parents[1] / "docs" / "api.md"
BEGIN, END = "<!-- settings: python -m tools.settings -->\n", "<!-- end of settings -->\n"
HEAD = "| setting | may be | default | what it says | where |\n| --- | --- | --- | --- | --- |\n"


def table() -> str:
    """Return the table in Markdown, in the order of the parameters of `Agent`."""
    names = [name for name in inspect.signature(Agent).parameters if name in SETTINGS]
    return HEAD + "".join(_row(name, SETTINGS[name]) for name in names)


def page(text: str) -> str:
    """Return the text of the page with the table as it should be."""
    before, rest = text.split(BEGIN)
    _, after = rest.split(END)
    return f"{before}{BEGIN}\n{table()}\n{END}{after}"


def _row(name: str, setting: Setting) -> str:
    cells = [f"`{name}`", _kind(setting), _default(setting), setting.help, setting.applies]
    return f"| {' | '.join(cells)} |\n".replace("  |", " |")


def _kind(setting: Setting) -> str:
    if setting.choices:
        return ", ".join(f'`"{word}"`' for word in setting.choices)
    if setting.range is None:
        return setting.type
    none = " or None" if setting.optional and setting.default is not None else ""
    return (
        str(setting.range).removeprefix("a ").removeprefix("an ").replace("the range ", "") + none
    )


def _default(setting: Setting) -> str:
    if setting.default is REQUIRED:
        return "required"
    if setting.choices:
        return "" if setting.default is None else f'`"{setting.default}"`'
    return f"`{setting.default_words}`" if setting.default_words else ""


if __name__ == "__main__":
    PAGE.write_text(page(PAGE.read_text(encoding="utf-8")), encoding="utf-8")
