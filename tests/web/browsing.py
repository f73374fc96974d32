"""Somebody at a browser, without one: cookies, forms and what a page says."""

from __future__ import annotations

import re
from html.parser import HTMLParser
from typing import Any
from urllib.parse import urlencode

from bridle.server.endpoints import Role
from tests.server.driving import Answer, Server

HOST = "bridle.test"


class _Reader(HTMLParser):
    """Gathers the text that is shown, links, forms and the values of their fields."""

    def __init__(self) -> None:
        super().__init__()
        self.texts: list[str] = []
        self.links: list[str] = []
        self.forms: list[dict[str, Any]] = []
        self._hidden = 0

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        given = dict(attrs)
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
        if tag in ("script", "style", "title"):
            self._hidden -= 1

    def handle_data(self, data: str) -> None:
        if not self._hidden and data.strip():
            self.texts.append(" ".join(data.split()))


class Shown:
    """A page that was answered with."""

    def __init__(self, answer: Answer) -> None:
        self.status, self.headers, self.html = answer.status, answer.headers, answer.body.decode()
        reader = _Reader()
        reader.feed(self.html)
        self.text = " ".join(reader.texts)
        self.links, self.forms = reader.links, reader.forms

    def form(self, action: str) -> dict[str, str]:
        """Give the fields of a form, by (the beginning of) where it goes."""
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
        """Go where a page sends one."""
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


def no_script(html: str) -> bool:
    """Say whether a page holds nothing that runs but the site's own files."""
    inline = re.search(r"<script(?![^>]*\bsrc=)|\son[a-z]+\s*=|javascript:|\sstyle\s*=", html, re.I)
    return inline is None
