from __future__ import annotations

import pytest

from bridle.errors import StoreFailed
from bridle.server.limits import Limits
from bridle.server.table import endpoints
from bridle.web.app import App, create_app
from tests.server.driving import Server


def test_alive_and_ready(server: Server):
    for path in ("/healthz", "/readyz"):
        answer = server.call("GET", path, token=None)
        assert (answer.status, answer.json) == (200, {"status": "ok"})


def test_a_store_that_does_not_read_is_not_ready_but_alive(server: Server, monkeypatch):
    def fail(id: str) -> None:
        raise StoreFailed("/secret/path")

    monkeypatch.setattr(server.store, "token", fail)
    answer = server.call("GET", "/readyz", token=None)
    assert (answer.status, answer.code) == (503, "store_failed")
    assert answer.headers["retry-after"] == "1"
    assert b"secret" not in answer.body
    assert server.call("GET", "/healthz", token=None).status == 200


def test_a_store_that_does_not_write_is_ready_again_once_it_does(server: Server, monkeypatch):
    def fail() -> None:
        raise StoreFailed("/secret/path")

    with monkeypatch.context() as broken:
        broken.setattr(server.store, "transaction", fail)
        with pytest.raises(StoreFailed):
            server.runner.run(server.service.do("ann", lambda work: None))
        assert server.call("GET", "/readyz", token=None).status == 503
        assert server.call("GET", "/readyz", token=None).status == 503
    assert server.call("GET", "/readyz", token=None).status == 200


def test_metrics(server: Server):
    server.call("GET", "/healthz")
    server.call("GET", "/nothing/here")
    answer = server.call("GET", "/metrics")
    assert answer.headers["content-type"].startswith("text/plain; version=0.0.4")
    lines = answer.body.decode().splitlines()
    for line in (
        'bridle_requests_total{method="GET",path="/healthz",status="200"} 1.0',
        'bridle_requests_total{method="-",path="-",status="404"} 1.0',
        'bridle_request_seconds_count{method="GET",path="/healthz"} 1.0',
        "bridle_waiting 0.0",
        "bridle_in_flight 1.0",
        "bridle_agents_held 0.0",
        'bridle_outcomes_total{outcome="decision"} 0.0',
    ):
        assert line in lines


def test_metrics_can_be_open(serve):
    server = serve(limits=Limits(open_metrics=True))
    assert server.call("GET", "/metrics", token=None).status == 401
    server.app = create_app(server.service)
    assert server.call("GET", "/metrics", token=None).status == 200
    assert len(App(server.service, endpoints()).table) == len(server.app.table)
