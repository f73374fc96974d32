"""The ways in and out: the front page, signing in and out, and the files that pages use."""

from __future__ import annotations

from bridle.server.problems import Problem
from bridle.web import page as session
from bridle.web.page import Data, Html, Page, Redirect, Shown, Visit
from bridle.web.rendering import url

__all__ = ["PAGES"]

FOREVER = "public, max-age=31536000, immutable"


async def front(visit: Visit) -> Shown:
    """Go to the agents, or to where one signs in."""
    return Redirect("/agents" if visit.caller is not None else "/sign-in")


async def sign_in(visit: Visit) -> Shown:
    """Show where one signs in."""
    return _door(visit, session.local_path(visit.query.get("next")))


async def enter(visit: Visit) -> Shown:
    """Sign in with a token."""
    wanted = session.local_path(visit.form.get("next"))
    token = visit.form.get("token")
    try:
        await visit.service.tokens.fresh()
        caller = visit.service.tokens.caller(b"Bearer " + token.encode("latin-1", "replace"))
    except Problem as problem:
        return _door(visit, wanted, problem.message, 401)
    if caller.role == "agent":
        why = "This token is for programs. Sign in with one of a teacher, an auditor or an admin."
        return _door(visit, wanted, why, 403)
    cookie = session.sign_in_cookie(visit.more["scope"], token)
    return Redirect("/agents" if wanted == "/" else wanted, (cookie,))


def _door(visit: Visit, wanted: str, wrong: str = "", status: int = 200) -> Html:
    values = {"next": wanted, "wrong": wrong, "open_doors": visit.service.open_doors}
    return Html("sign-in.html", values, status)


async def leave(visit: Visit) -> Shown:
    """Sign out."""
    return Redirect(url("sign-in", said="signed-out"), (session.sign_out_cookie(),))


async def file(visit: Visit) -> Shown:
    """Give a file that pages use."""
    found = visit.rendering.static.get(visit.path["name"])
    if found is None:
        raise Problem("not_found", "There is no such file.")
    body, hash, media = found
    fresh = visit.query.get("v") == hash
    return Data(body, media, headers={"cache-control": FOREVER if fresh else "no-cache"})


PAGES: tuple[Page, ...] = (
    Page(method="GET", path="/", handle=front),
    Page(method="GET", path="/sign-in", handle=sign_in),
    Page(method="POST", path="/sign-in", handle=enter),
    Page(method="POST", path="/sign-out", handle=leave),
    Page(method="GET", path="/static/{name}", handle=file),
)
