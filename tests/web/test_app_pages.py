from __future__ import annotations

import pytest
from starlette.datastructures import Headers

from bridle.server.endpoints import ROLES
from bridle.server.limits import Limits
from bridle.server.problems import Problem
from bridle.server.table import endpoints
from bridle.web import page as session
from bridle.web.app import pages
from bridle.web.forms import MAX_FIELDS
from tests.web.browsing import HOST, Person, no_script


def test_who_has_not_signed_in_gets_nowhere(server):
    nobody = Person(server, None)
    for page in pages():
        if not page.like:
            continue
        path = page.path.replace("{agent}", "films").replace("{id}", "1").replace("{name}", "x")
        answer = nobody.get(path) if page.method == "GET" else nobody.post(path)
        if page.method == "GET":
            assert answer.status == 303 and answer.headers["location"].startswith("/sign-in")
        else:
            assert answer.status == 401
    for path in ("/nothing", "/agents/films/nothing"):
        assert nobody.get(path).status == 404


def test_pages_have_the_rights_of_the_api(server, make, person):
    make()
    rights = {f"{row.method} {row.path}": row.roles or () for row in endpoints()}
    for role in ROLES[1:]:
        somebody = person(role)
        for page in pages():
            if not page.like or page.method != "GET":
                continue
            path = page.path.replace("{agent}", "films")
            if "{" in path or path.endswith("/stream"):  # one of them has no end
                continue
            allowed = all(role in rights[endpoint] for endpoint in page.like)
            status = somebody.get(path).status
            assert (status == 403) == (not allowed), (role, path, status)


def test_a_token_of_another_agent_and_one_of_a_program(server, make, person):
    make("films")
    make("songs")
    ann = person("teacher", ("songs",))
    assert ann.get("/agents/songs/teach").status == 200
    assert ann.get("/agents/films/teach").status == 403
    program = Person(server, None)
    refused = program.post("/sign-in", {"token": server.grant("agent").text})
    assert refused.status == 403 and "for programs" in refused.text


def test_signing_in_and_out(server, person):
    nobody = Person(server, None)
    shown = nobody.get("/agents?x=1")
    assert shown.headers["location"] == "/sign-in?next=%2Fagents%3Fx%3D1"
    for wrong in ("", "nonsense", "brd_" + "a" * 12 + "_" + "b" * 43, "brd_é"):
        assert nobody.post("/sign-in", {"token": wrong}).status == 401
        assert not nobody.cookie
    token = server.grant("teacher").text
    entered = nobody.post("/sign-in", {"token": token, "next": "/agents?x=1"})
    assert entered.headers["location"] == "/agents?x=1"
    cookie = entered.headers["set-cookie"]
    assert "HttpOnly" in cookie and "SameSite=Strict" in cookie and "Secure" not in cookie
    assert nobody.get("/agents").status == 200
    out = nobody.post("/sign-out")
    assert out.status == 303 and not nobody.cookie
    for elsewhere in ("https://evil.test/", "//evil.test", "/\\evil.test", "javascript:1", "x"):
        answer = Person(server, None).post("/sign-in", {"token": token, "next": elsewhere})
        assert answer.headers["location"] == "/agents"
    secure = nobody.post("/sign-in", {"token": token}, origin=f"https://{HOST}")
    assert "; Secure" in secure.headers["set-cookie"]


def test_a_revoked_token_ends_the_session(server):
    token = server.grant("teacher")
    ann = Person(server, None)
    ann.post("/sign-in", {"token": token.text})
    assert ann.get("/agents").status == 200
    server.runner.run(server.service.tokens.revoke(token.row.id))
    assert ann.get("/agents").status == 303


def test_no_change_for_another_site(server, person):
    ann = person("admin")
    for headers in (
        {"sec_fetch_site": "cross-site"},
        {"sec_fetch_site": "same-site"},
        {"sec_fetch_site": "none"},
        {"sec_fetch_site": "", "origin": "http://evil.test"},
        {"sec_fetch_site": "", "origin": "null"},
        {"sec_fetch_site": "", "origin": ""},
    ):
        assert ann.post("/sign-out", {}, **headers).status == 403
        assert ann.cookie
    assert ann.post("/sign-out", {}, sec_fetch_site="").status == 303


def test_the_api_takes_no_cookie(server, person):
    ann = person("admin")
    answer = server.call("GET", "/v1/agents", token=None, headers=[("cookie", ann.cookie)])
    assert answer.code == "no_token"


def test_what_every_page_says_to_the_browser(server, person):
    ann = person("admin")
    for path in ("/sign-in", "/agents", "/nothing"):
        shown = ann.get(path)
        policy = shown.headers["content-security-policy"]
        assert "default-src 'none'" in policy and "unsafe" not in policy
        assert shown.headers["cache-control"] == "no-store"
        assert shown.headers["x-content-type-options"] == "nosniff"
        assert no_script(shown.html)
        assert 'lang="en"' in shown.html and 'id="main"' in shown.html


def test_files_have_an_address_that_changes_with_them(server):
    nobody = Person(server, None)
    shown = nobody.get("/sign-in")
    address = shown.html.split('rel="stylesheet" href="')[1].split('"')[0]
    style = nobody.get(address)
    assert style.status == 200 and "immutable" in style.headers["cache-control"]
    assert style.headers["content-type"].startswith("text/css")
    assert nobody.get("/static/style.css").headers["cache-control"] == "no-cache"
    assert nobody.get("/static/style.css?v=0").headers["cache-control"] == "no-cache"
    for nothing in ("nothing.css", "..%2Fapp.py", "../app.py", "%2e%2e/app.py", "", "a/b", "."):
        shown = nobody.get(f"/static/{nothing}")
        assert shown.status == 404 and "cache-control" in shown.headers
    assert nobody.post("/static/style.css").status == 405
    again = nobody.get(address, if_none_match=style.headers["etag"])
    assert again.status == 304 and not again.html


def test_forms_that_are_none(server, serve, person):
    ann = person("admin")
    assert ann.post("/sign-out", b"%ff%fe=\xff").status == 400
    assert ann.post("/sign-out", b"{}", content_type="application/json").status == 415
    assert ann.post("/sign-out", b"x", content_type="multipart/form-data; boundary=a").status == 400
    many = b"&".join(b"x=%d" % n for n in range(MAX_FIELDS + 1))
    assert ann.post("/sign-out", many).status == 400
    part = b'--a\r\nContent-Disposition: form-data; name="x"\r\n\r\n1\r\n'
    kind = "multipart/form-data; boundary=a"
    parts = part * (MAX_FIELDS + 1) + b"--a--\r\n"
    assert ann.post("/sign-out", parts, content_type=kind).status == 413
    nameless = part.replace(b'; name="x"', b"") + b"--a--\r\n"
    assert ann.post("/sign-out", nameless, content_type=kind).status == 400
    assert ann.post("/sign-out", part, content_type=kind, content_encoding="gzip").status == 415
    small = serve(limits=Limits(body_bytes=1_024))
    somebody = Person(small, None)
    assert somebody.post("/sign-in", {"token": "x" * 2_000}).status == 413


@pytest.mark.parametrize(
    ("headers", "found"),
    [
        ([], None),
        ([(b"cookie", b"bridle=abc")], b"Bearer abc"),
        ([(b"cookie", b"a=b; bridle=abc; c=d")], b"Bearer abc"),
        ([(b"cookie", b"bridle=abc"), (b"cookie", b"bridle=def")], None),
        ([(b"cookie", b"other=abc")], None),
    ],
)
def test_the_token_of_a_cookie(headers, found):
    assert session.token_of(Headers(raw=headers)) == found


def test_programs_are_not_sent_to_pages(server):
    answer = server.call("GET", "/nothing", token=None)
    assert answer.code == "not_found"
    with pytest.raises(Problem):
        session.check_origin("POST", Headers())


def test_a_page_that_fails_while_it_is_written_is_a_page_too(server, person, monkeypatch):
    ann = person("admin")
    page = server.app.rendering.page

    def fails(request, template, values, status):
        if template == "agents.html":
            raise RuntimeError("the secret of it")
        return page(request, template, values, status)

    monkeypatch.setattr(server.app.rendering, "page", fails)
    shown = ann.get("/agents")
    assert shown.status == 500 and "secret" not in shown.html
    assert "This did not work" in shown.text


@pytest.mark.parametrize(
    "others",
    ['x={"a":1}; {}', "x=\u00e9; {}", "[x]=1; {}", 'x="open; {}', "{}; y=%%%;;", "xbridle=1;{} "],
)
def test_cookies_of_others_do_not_hide_ours(server, person, others):
    ann = person("teacher")
    ann.cookie = others.replace("{}", ann.cookie)
    assert ann.get("/agents").status == 200


def test_of_two_cookies_none_is_taken(person):
    ann = person("teacher")
    ann.cookie = f"{ann.cookie}; {ann.cookie}"
    assert ann.get("/agents").status == 303


def test_who_was_signed_in_is_told_that_it_ended(server, person):
    ann = person("teacher")
    [row] = [row for row in server.store.tokens() if row.role == "teacher"]
    server.runner.run(server.service.tokens.revoke(row.id))
    assert "Your session has ended" in ann.follow(ann.get("/agents")).text
    nobody = Person(server, None)
    assert "ended" not in nobody.follow(nobody.get("/agents")).text


def test_a_remedy_is_said_once(make, person):
    make()
    shown = person("admin").get("/agents/films/decisions?before=x")
    assert shown.status == 422
    refused = person("admin").post("/agents/films/teach/undo", {"example": "99"})
    assert refused.status == 404
    assert refused.text.count("It was never taught") == 1


def test_metrics_have_the_pages_by_their_address(server, make, person):
    make()
    ann = person("admin")
    ann.get("/agents/films/teach")
    ann.get("/nothing")
    text = server.service.metrics.text().decode()
    for labels in (
        'method="GET",path="page /agents/{agent}/teach",status="200"',
        'method="GET",path="page -",status="404"',
        'method="POST",path="page /sign-in",status="303"',
    ):
        assert f"bridle_requests_total{{{labels}}} 1.0" in text


@pytest.mark.parametrize("method", ["HEAD", "PUT", "OPTIONS", "DELETE"])
def test_other_methods_on_a_page(server, method):
    headers = [("accept", "text/html")]
    answer = server.call(method, "/sign-in", token=None, headers=headers)
    assert answer.status == 405 and answer.headers["allow"] == "GET, POST"
    assert answer.headers["content-type"].startswith("text/html")
