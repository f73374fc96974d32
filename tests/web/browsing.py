"""Somebody at a browser, without one: cookies, forms and the elements of a page.

Texts of pages change; tests hold on to hooks in the templates. ``data-note`` names a remark that a
page makes, ``data-value`` a figure or a short text, ``data-said`` what it confirms. Rows and cards
name what they are about (``data-agent``, ``data-decision``, ``data-arm``) and its state.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass, field
from html.parser import HTMLParser
from typing import Any
from urllib.parse import urlencode

from bridle.server.endpoints import Role
from bridle.web.app import pages
from tests.server.driving import Answer, Server

HOST = "bridle.test"


# Elements that have no end tag.
VOID = frozenset(
    ["br", "col", "hr", "img", "input", "link", "meta", "rect", "line", "source", "wbr"]
)


@dataclass
class Element:
    """An element of a page: its tag, its attributes, and what it contains."""

    tag: str
    attrs: dict[str, str]
    children: list[Element] = field(default_factory=list)
    texts: list[str] = field(default_factory=list)

    @property
    def text(self) -> str:
        """The text that is shown, of this element and of all within."""
        return " ".join(self.texts)

    def data(self, name: str) -> str:
        """Return the value of a data attribute."""
        return self.attrs[f"data-{name}"]

    def all(self, **attrs: str) -> list[Element]:
        """Return the elements within that have these attributes: `data_note` is ``data-note``."""
        wanted = {name.replace("_", "-"): value for name, value in attrs.items()}
        found = []
        for child in self.children:
            if all(child.attrs.get(name) == value for name, value in wanted.items()):
                found.append(child)
            found += child.all(**attrs)
        return found

    def one(self, **attrs: str) -> Element:
        """Return the only element within that has these attributes."""
        found = self.all(**attrs)
        assert len(found) == 1, f"{len(found)} elements have {attrs}"
        return found[0]

    def has(self, **attrs: str) -> bool:
        """Whether exactly one element within has these attributes."""
        return len(self.all(**attrs)) == 1

    def value(self, name: str) -> str:
        """Return the text of the element with this ``data-value``."""
        return self.one(data_value=name).text

    @property
    def notes(self) -> set[str]:
        """The ``data-note`` of all elements within: which remarks a page makes."""
        mine = {self.attrs["data-note"]} if "data-note" in self.attrs else set()
        return mine.union(*(child.notes for child in self.children))


class _Reader(HTMLParser):
    """Gathers elements, the text that is shown, links, forms and the values of their fields."""

    def __init__(self) -> None:
        super().__init__()
        self.texts: list[str] = []
        self.links: list[str] = []
        self.forms: list[dict[str, Any]] = []
        self.root = Element("", {})
        self._open = [self.root]
        self._hidden = 0

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        given = dict(attrs)
        element = Element(tag, {name: value or "" for name, value in attrs})
        self._open[-1].children.append(element)
        if tag not in VOID:
            self._open.append(element)
        if tag in ("script", "style", "title"):
            self._hidden += 1
        if tag == "a" and given.get("href"):
            self.links.append(str(given["href"]))
        if tag == "form":
            self.forms.append(
                {"action": given.get("action"), "method": given.get("method"), "fields": {}}
            )
        if tag in ("input", "button", "textarea", "select") and given.get("name") and self.forms:
            self.forms[-1]["fields"].setdefault(given["name"], given.get("value") or "")

    def handle_endtag(self, tag: str) -> None:
        if any(element.tag == tag for element in self._open):
            while self._open.pop().tag != tag:
                pass
        if tag in ("script", "style", "title"):
            self._hidden -= 1

    def handle_data(self, data: str) -> None:
        if not self._hidden and data.strip():
            text = " ".join(data.split())
            self.texts.append(text)
            for element in self._open:
                element.texts.append(text)


class Shown:
    """A page that was answered with."""

    def __init__(self, answer: Answer) -> None:
        self.status, self.headers, self.html = answer.status, answer.headers, answer.body.decode()
        reader = _Reader()
        reader.feed(self.html)
        self.text = " ".join(reader.texts)
        self.links, self.forms = reader.links, reader.forms
        self.root = reader.root

    def all(self, **attrs: str) -> list[Element]:
        """Return the elements that have these attributes."""
        return self.root.all(**attrs)

    def one(self, **attrs: str) -> Element:
        """Return the only element that has these attributes."""
        return self.root.one(**attrs)

    def has(self, **attrs: str) -> bool:
        """Whether exactly one element has these attributes."""
        return self.root.has(**attrs)

    def value(self, name: str) -> str:
        """Return the text of the element with this ``data-value``."""
        return self.root.value(name)

    @property
    def notes(self) -> set[str]:
        """Which remarks the page makes, by their ``data-note``."""
        return self.root.notes

    @property
    def said(self) -> str | None:
        """What the page confirms, by its ``data-said``."""
        found = [one for one in self.all(role="status") if "data-said" in one.attrs]
        return found[0].data("said") if found else None

    @property
    def alert(self) -> str:
        """The text of what went wrong."""
        return " ".join(one.text for one in self.all(role="alert"))

    @property
    def headings(self) -> list[str]:
        """The texts of all headings."""
        tags = ("h1", "h2", "h3", "h4")
        return [one.text for one in self.all() if one.tag in tags]

    def form(self, action: str) -> dict[str, str]:
        """Return the fields of a form, by (the beginning of) its action."""
        found = [form for form in self.forms if str(form["action"]).startswith(action)]
        assert found, f"no form goes to {action}: {[form['action'] for form in self.forms]}"
        return dict(found[0]["fields"])


class Person:
    """Somebody with a role at a browser that keeps cookies."""

    def __init__(self, server: Server, role: Role | None, agents: tuple[str, ...] | None = None):
        self.server = server
        self.cookie = ""
        if role is not None:
            token = server.grant(role, agents, note=f"a {role}").text
            entered = self.post("/sign-in", {"token": token})
            assert entered.status == 303, entered.text

    def get(self, path: str, **headers: str) -> Shown:
        return self._send("GET", path, None, headers)

    def post(self, path: str, form: dict[str, Any] | bytes | None = None, **headers: str) -> Shown:
        """Send a form from a page of this site. Bytes are sent as they are."""
        body = form if isinstance(form, bytes) else urlencode(form or {}, doseq=True).encode()
        given = {
            "content_type": "application/x-www-form-urlencoded",
            "sec_fetch_site": "same-origin",
            "origin": f"http://{HOST}",
            **headers,
        }
        return self._send("POST", path, body, given)

    def upload(self, path: str, form: dict[str, str], files: dict[str, tuple[str, bytes]]) -> Shown:
        """Send a form with files: by field, a name and the bytes."""
        mark = "----bridle-test"
        parts = b"".join(
            f'--{mark}\r\nContent-Disposition: form-data; name="{name}"\r\n\r\n{value}\r\n'.encode()
            for name, value in form.items()
        )
        for name, (filename, data) in files.items():
            head = (
                f'--{mark}\r\nContent-Disposition: form-data; name="{name}"; '
                f'filename="{filename}"\r\nContent-Type: text/csv\r\n\r\n'
            )
            parts += head.encode() + data + b"\r\n"
        body = parts + f"--{mark}--\r\n".encode()
        return self.post(path, body, content_type=f"multipart/form-data; boundary={mark}")

    def follow(self, shown: Shown) -> Shown:
        """Follow a redirect."""
        assert shown.status == 303, (shown.status, shown.text)
        return self.get(shown.headers["location"])

    def _send(self, method: str, path: str, body: bytes | None, headers: dict[str, str]) -> Shown:
        given = [(name.replace("_", "-"), value) for name, value in headers.items() if value]
        given += [("host", HOST), ("accept", "text/html")]
        if self.cookie:
            given.append(("cookie", self.cookie))
        answer = self.server.call(method, path, body, token=None, headers=given)
        set_cookie = answer.headers.get("set-cookie", "")
        if set_cookie:
            name, _, value = set_cookie.partition(";")[0].partition("=")
            kept = [
                one for one in self.cookie.split("; ") if one and not one.startswith(f"{name}=")
            ]
            self.cookie = "; ".join([*kept, f"{name}={value}"] if value else kept)
        return Shown(answer)


def pages_of(agent: str, decision: str) -> Iterator[str]:
    """Yield the path of every page of an agent, with one of its decisions; not what has no end."""
    for page in pages():
        if page.method == "GET" and "{agent}" in page.path and not page.path.endswith("/stream"):
            path = page.path.replace("{agent}", agent).replace("{id}", decision)
            yield f"{path}?unit=0&column=0" if path.endswith("/limits/cell") else path


def is_shown(person: Person, path: str) -> bool:
    """Return whether a page is there; two of them lead on, to where it is or where it begins."""
    status = person.get(path).status
    return status == 200 or (status == 303 and path.endswith(("/audits", "/question")))


def no_script(html: str) -> bool:
    """Whether a page runs nothing but the site's own files."""
    inline = re.search(r"<script(?![^>]*\bsrc=)|\son[a-z]+\s*=|javascript:|\sstyle\s*=", html, re.I)
    return inline is None
