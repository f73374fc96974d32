from __future__ import annotations

import re
from typing import Any

import pytest

from bridle.store.maintenance import restore
from bridle.store.sqlite import SqliteStore
from bridle.web.jobs import jobs_of
from bridle.web.page import Stream, Visit
from bridle.web.settings import KEY, MOST_SECONDS, PER_PAGE
from tests.web.browsing import no_script

SCRIPT = "<script>alert('x')</script>"
FORM = {"note": "Ann", "role": "teacher", "scope": "all", "days": "90", "agents": ""}
LONG = 30.0


def token_in(shown: Any) -> str:
    return str(re.search(r"brd_[a-z0-9]{12}_[A-Za-z0-9_-]{43}", shown.html)[0])  # type: ignore[index]


def test_only_admins(server, person):
    for role in ("teacher", "auditor"):
        somebody = person(role)
        assert somebody.get("/settings").status == 403
        assert somebody.get("/settings/backup").status == 403
        for path in ("tokens", "tokens/x/revoke", "backup", "backup/remove"):
            assert somebody.post(f"/settings/{path}", FORM).status == 403


def test_a_token_is_made_and_shown_once(server, person):
    ann = person("admin")
    shown = ann.post("/settings/tokens", FORM | {"scope": "some", "agents": "films, songs films"})
    assert shown.status == 200 and shown.headers["cache-control"] == "no-store"
    text = token_in(shown)
    assert "copy-now" in shown.notes and "films, songs" in shown.value("scope")
    answer = server.call("GET", "/v1/agents/films", token=text)
    assert answer.code == "not_found"  # it may look; there is no such agent
    later = ann.get("/settings")
    assert text not in later.html and "Ann" in later.one(data_token=text.split("_")[1]).text
    rows = {row.note: row for row in server.store.tokens()}
    assert rows["Ann"].agents == ("films", "songs")
    assert rows["Ann"].expires == server.clock.now + 90 * 86_400


def test_for_ever_and_for_all(server, person):
    ann = person("admin")
    form = FORM | {"days": "", "role": "auditor", "agents": "left over"}
    assert ann.post("/settings/tokens", form).has(data_expires="never")
    row = next(row for row in server.store.tokens() if row.note == "Ann")
    assert (row.expires, row.agents, row.role) == (None, None, "auditor")


@pytest.mark.parametrize(
    ("wrong", "said"),
    [
        ({"role": "king"}, "'role'"),
        ({"role": ""}, "'role'"),
        ({"days": "2"}, "how long"),
        ({"scope": "some"}, "No agent is named"),
        ({"scope": "some", "agents": "Not/A/Name"}, "'agents.0'"),
        ({"note": "x" * 201}, "'note'"),
    ],
)
def test_a_wrong_token_is_not_made_and_nothing_is_lost(server, person, wrong, said):
    ann = person("admin")
    before = len(server.store.tokens())
    shown = ann.post("/settings/tokens", FORM | {"note": f"Ann {SCRIPT}"} | wrong)
    assert shown.status == 422 and said in shown.alert
    assert len(server.store.tokens()) == before
    assert "Ann" in shown.html or "note" in wrong
    assert no_script(shown.html) and SCRIPT not in shown.html


def test_revoking(server, person):
    ann = person("admin")
    text = token_in(ann.post("/settings/tokens", FORM))
    id = text.split("_")[1]
    gone = ann.post(f"/settings/tokens/{id}/revoke")
    assert gone.headers["location"] == "/settings?said=revoked"
    assert ann.follow(gone).said == "revoked"
    assert server.call("GET", "/v1/agents", token=text).code == "no_token"
    assert not ann.get("/settings").all(data_token=id)
    assert ann.get("/settings?all=1").one(data_token=id).data("state") == "revoked"
    assert ann.post("/settings/tokens/nobody/revoke").status == 404


def test_the_last_admin_stays(server, person):
    ann = person("admin")
    mine = next(row.id for row in server.store.tokens() if row.note == "a admin")
    first = next(row.id for row in server.store.tokens() if row.id != mine)
    assert "yours" in ann.get("/settings").one(data_token=mine).notes
    assert ann.post(f"/settings/tokens/{first}/revoke").status == 303
    assert ann.post(f"/settings/tokens/{mine}/revoke").status == 409
    assert ann.get("/settings").status == 200


def test_tokens_are_paged(server, person):
    for n in range(PER_PAGE + 3):
        server.grant("teacher", note=f"number {n}")
    ann = person("admin")
    shown = ann.get("/settings")
    assert shown.html.count("/revoke") == PER_PAGE
    assert shown.value("range") == "1 to 50 of 55" and "/settings?after=50" in shown.links
    shown = ann.get("/settings?after=50")
    assert shown.value("range") == "51 to 55 of 55" and "/settings" in shown.links
    assert "no-more-tokens" in ann.get("/settings?after=500").notes
    assert ann.get("/settings?after=-1").status == 422


def test_an_admin_of_one_agent(server, make, person):
    make("films")
    make("songs")
    server.grant("teacher", ("songs",), note="of songs")
    ann = person("admin", ("films",))
    shown = ann.get("/settings")
    assert "of songs" not in shown.text and not shown.all(id="backup")
    [form] = [one["fields"] for one in shown.forms if one["action"] == "/settings/tokens"]
    assert form["scope"] == "some" and form["agents"] == "films"
    assert ann.post("/settings/tokens", FORM | {"scope": "some", "agents": "films"}).status == 200
    for wrong in ({"scope": "all"}, {"scope": "some", "agents": "songs"}):
        assert ann.post("/settings/tokens", FORM | wrong).status == 403
    assert ann.post("/settings/backup").status == 403
    assert ann.get("/settings/backup").status == 403
    assert ann.post("/settings/backup/remove").status == 403


def test_what_runs_here(server, person):
    shown = person("admin").get("/settings")
    assert "SQLite" in shown.one(data_here="Store").text
    limit = shown.one(data_limit="body bytes").text
    assert f"{server.service.limits.body_bytes:,}" in limit and no_script(shown.html)


# -- backups ---------------------------------------------------------------------------------


def backed_up(server: Any, ann: Any) -> Any:
    begun = ann.post("/settings/backup")
    assert begun.headers["location"] == "/settings#backup"
    job = jobs_of(server.service).find(KEY)
    assert job is not None and job.wait(LONG), "the backup takes long"
    return job


def test_a_backup_is_made_fetched_and_removed(server, make, person, tmp_path):
    make()
    ann = person("admin")
    assert ann.get("/settings/backup").status == 404
    assert "not-done" in ann.get("/settings").notes
    job = backed_up(server, ann)
    assert job.state == "done", job.error
    shown = ann.get("/settings")
    assert shown.one(id="backup-job").data("state") == "done"
    assert shown.value("backup-agents") == "1" and "/settings/backup" in shown.links
    path = job.result.path
    assert path.stat().st_mode & 0o077 == 0 and path.parent.stat().st_mode & 0o077 == 0

    fetched = tmp_path / "fetched.db"
    fetched.write_bytes(server.runner.run(_fetched(server, ann)))
    store = SqliteStore(tmp_path / "again.db")
    assert set(restore(fetched, store)) == {"films"}
    assert len(store.tokens()) == len(server.store.tokens())
    store.close()

    assert ann.post("/settings/backup/remove").status == 303
    assert not path.exists() and not path.parent.exists()
    assert ann.get("/settings/backup").status == 404


async def _fetched(server: Any, ann: Any) -> bytes:
    """Fetch it as a browser does, piece by piece."""
    caller = server.service.tokens.caller(b"Bearer " + ann.cookie.split("=", 1)[1].encode())
    from bridle.web.forms import Fields
    from bridle.web.settings import fetch

    nothing = Fields([])
    visit = Visit(
        server.service, server.app.rendering, caller, {}, nothing, nothing, "/settings/backup"
    )
    shown = await fetch(visit)
    assert isinstance(shown, Stream) and shown.name == "bridle-1970-01-12.db"
    return b"".join([piece async for piece in shown.pieces])


def test_an_old_backup_goes(server, person):
    ann = person("admin")
    path = backed_up(server, ann).result.path
    server.clock.now += MOST_SECONDS + 1
    assert ann.get("/settings/backup").status == 404
    assert not path.exists()


def test_a_new_backup_takes_the_place_of_the_old_and_none_outlives_the_service(serve):
    from tests.web.browsing import Person

    server = serve()
    ann = Person(server, "admin")
    first = backed_up(server, ann).result.path
    second = backed_up(server, ann).result.path
    assert not first.exists() and second.exists()
    server.runner.run(server.service.stop())
    assert not second.exists()


def test_a_backup_that_fails_leaves_nothing_and_says_so(server, person, monkeypatch, tmp_path):
    from bridle.errors import StoreFailed
    from bridle.web import settings as backups

    def fails(store: Any, path: Any, *, progress: Any) -> None:
        path.write_bytes(b"half")
        raise StoreFailed("no room on /somewhere")

    monkeypatch.setattr(backups, "backup", fails)
    monkeypatch.setattr("tempfile.mkdtemp", lambda prefix: str(_folder(tmp_path)))
    ann = person("admin")
    job = backed_up(server, ann)
    assert job.state == "failed" and not (tmp_path / "made").exists()
    shown = ann.get("/settings")
    assert shown.one(id="backup-job").data("state") == "failed"
    assert "somewhere" not in shown.text


def _folder(tmp_path: Any) -> Any:
    made = tmp_path / "made"
    made.mkdir()
    return made
