"""Who is at the browser: a cookie that holds a token, and no request from other sites.

The cookie holds the token itself. So a session ends when its token is revoked or expires, works on
every replica, and nothing that is stored could be used to sign in. Scripts cannot read it, other
sites cannot send it, and only pages take it: the API wants its header.
"""

from __future__ import annotations

from urllib.parse import urlsplit

from bridle.service.guards import Scope
from bridle.service.problems import Problem

__all__ = ["COOKIE", "check_origin", "local_path", "sign_in_cookie", "sign_out_cookie", "token_of"]

COOKIE = "bridle"
SECONDS = 12 * 3600  # a working day, and no longer


def token_of(scope: Scope) -> bytes | None:
    """Give the token of a request's cookie as the header of the API would have it."""
    texts = [value.decode("latin-1") for name, value in scope["headers"] if name == b"cookie"]
    # By hand: what else this host has set, of whatever form, must not hide ours. Of two that are
    # called like ours, one was put there by somebody else.
    parts = [part.strip() for text in texts for part in text.split(";")]
    found = [part.removeprefix(f"{COOKIE}=") for part in parts if part.startswith(f"{COOKIE}=")]
    return b"Bearer " + found[0].encode("latin-1") if len(found) == 1 else None


def sign_in_cookie(scope: Scope, token: str) -> str:
    """Give the cookie of who signs in. Where the page came over TLS, it goes over nothing else."""
    secure = "; Secure" if _header(scope, b"origin").startswith(b"https:") else ""
    return f"{COOKIE}={token}; Path=/; Max-Age={SECONDS}; HttpOnly; SameSite=Strict{secure}"


def sign_out_cookie() -> str:
    """Give the cookie that ends a session."""
    return f"{COOKIE}=; Path=/; Max-Age=0; HttpOnly; SameSite=Strict"


def check_origin(scope: Scope) -> None:
    """Refuse a change that another site asks for.

    Browsers say where a request comes from in Sec-Fetch-Site, older ones in Origin. One that says
    neither is refused: it is no browser, and programs have the API.
    """
    if scope["method"] in ("GET", "HEAD"):
        return
    site = _header(scope, b"sec-fetch-site")
    if site:
        if site != b"same-origin":
            raise _foreign()
        return
    origin = _header(scope, b"origin").decode("latin-1")
    host = _header(scope, b"host").decode("latin-1")
    if not origin or not host or urlsplit(origin).netloc.lower() != host.lower():
        raise _foreign()


def local_path(text: str) -> str:
    """Give an address on this site to go to; the front page for any other."""
    fine = text.startswith("/") and not text.startswith(("//", "/\\")) and text.isprintable()
    return text if fine and len(text) < 2_000 else "/"


def _header(scope: Scope, name: bytes) -> bytes:
    found = [value for one, value in scope["headers"] if one == name]
    return bytes(found[0]) if len(found) == 1 else b""


def _foreign() -> Problem:
    return Problem(
        "forbidden", "This request does not come from a page of this service.",
        remedy="Open the page here and send the form from there.",
    )  # fmt: skip
