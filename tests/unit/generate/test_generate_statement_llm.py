from __future__ import annotations

import json
import logging
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import replace
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

import pytest
from pydantic import SecretStr

from taskforge.generate.statement import Statement
from taskforge.generate.statement_llm import Author, Endpoint
from taskforge.model import digest_of
from taskforge.settings import Settings

KEY = "sk-very-secret"
BODY = b"    found = sorted(self.vault.items(), key=secret_order)\n    return found[:limit]\n"
REMOVED = {"p/m.py::Shop.best:3": BODY}
TEMPLATE = Statement(
    text="# Implement `Shop.best`\n\nWrite it again.\n\n## `Shop.best`\n\nA method.\n\n## How it is judged\n\nBy tests.\n",
    told=(),
    report={"writer": "template", "told": []},
)
PROSE = (
    "`Shop.best` gives the goods of the shop from the dearest to the cheapest, no more of them than the limit says."
    " A limit of zero gives an empty list; a negative one raises `ValueError`."
)
Reply = Callable[["_Handler"], None]


class _Handler(BaseHTTPRequestHandler):
    replies: list[Reply]
    seen: list[tuple[str, dict[str, str], dict[str, object]]]
    over: threading.Event

    def do_POST(self) -> None:
        length = int(self.headers["Content-Length"])
        self.seen.append((self.path, dict(self.headers), json.loads(self.rfile.read(length))))
        (self.replies.pop(0) if len(self.replies) > 1 else self.replies[0])(self)

    def log_message(self, *args: object) -> None:
        pass

    def send(self, data: bytes, status: int = 200, **headers: str) -> None:
        self.send_response(status)
        for name, value in headers.items():
            self.send_header(name, value)
        self.send_header("Content-Length", str(len(data)))
        self.end_headers()
        self.wfile.write(data)


def says(text: object, **more: object) -> Reply:
    answer = {"choices": [{"message": {"role": "assistant", "content": text, **more}, "finish_reason": "stop"}]}
    return lambda handler: handler.send(json.dumps(answer).encode())


def status(code: int, **headers: str) -> Reply:
    return lambda handler: handler.send(f"no, {KEY}".encode(), code, **headers)


def raw(data: bytes) -> Reply:
    return lambda handler: handler.send(data)


def stall(handler: _Handler) -> None:
    handler.over.wait(20)


def trickle(handler: _Handler) -> None:
    handler.send_response(200)
    handler.end_headers()
    try:
        while not handler.over.wait(0.1):
            handler.wfile.write(b" ")
            handler.wfile.flush()
    except OSError:
        # The client has had enough, as it should.
        return


@contextmanager
def serving(*replies: Reply) -> Iterator[type[_Handler]]:
    over = threading.Event()
    handler = type("Handler", (_Handler,), {"replies": list(replies), "seen": [], "over": over})
    with ThreadingHTTPServer(("127.0.0.1", 0), handler) as server:
        thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.02})
        thread.start()
        handler.url = f"http://127.0.0.1:{server.server_port}/v1"
        try:
            yield handler
        finally:
            over.set()
            server.shutdown()
            thread.join()


def author(url: str, *, timeout: float = 20.0, model: str = "writer-1", key: str = KEY) -> Author:
    return Author(Endpoint(base_url=url, model=model, api_key=SecretStr(key), timeout=timeout))


def written(*replies: Reply, timeout: float = 20.0) -> tuple[Statement, type[_Handler]]:
    with serving(*replies) as handler:
        return author(handler.url, timeout=timeout).write(TEMPLATE, REMOVED, name="Shop.best"), handler


def test_prose_joins_the_template_and_is_recorded(caplog: pytest.LogCaptureFixture) -> None:
    found, handler = written(says(f"<think>hm: {BODY.decode()}</think>\n{PROSE}\n"))
    before, after = TEMPLATE.text.split("\n\n## `Shop.best`")
    assert found.text == f"{before}\n\n## What it has to do\n\n{PROSE}\n\n## `Shop.best`{after}"
    (path, headers, asked), *others = handler.seen
    assert not others
    assert path == "/v1/chat/completions"
    assert headers["Authorization"] == f"Bearer {KEY}"
    assert asked["model"] == "writer-1"
    assert found.report == {
        "writer": "llm",
        "told": [],
        "endpoint": handler.url,
        "model": "writer-1",
        "prompt": asked["messages"],
        "prompt_digest": digest_of(asked["messages"]),
    }
    assert "secret_order" in json.dumps(asked["messages"])
    assert KEY not in json.dumps(found.report)
    assert not caplog.records


@pytest.mark.parametrize(
    ("reply", "reason", "asked"),
    [
        (status(401), "http_401", 1),
        (status(503), "http_503", 2),
        (status(302, Location="http://127.0.0.1:1/"), "http_302", 1),
        (raw(b"<html>"), "nonsense", 2),
        (raw(b'{"choices": []}'), "nonsense", 2),
        (raw(b"[" * 100_000), "nonsense", 2),
        (raw(b" " * (1024 * 1024 + 1)), "too_long", 1),
        (says(None), "nonsense", 2),
        (says("Shop.best"), "nonsense", 2),
        (says("Lorem ipsum. " * 20), "nonsense", 2),
        (says("Shop.best " * 2000), "nonsense", 2),
        (says("I'm sorry, but I cannot help with Shop.best, since it would go against what I was told to do here."), "refused", 1),
        (says(PROSE, refusal="no"), "refused", 1),
        (raw(json.dumps({"choices": [{"message": {"content": PROSE}, "finish_reason": "length"}]}).encode()), "cut", 1),
        (says(f"{PROSE}\n\n```python\nx = 1\n```"), "shape", 2),
        (says(f"# Shop\n\n{PROSE}"), "shape", 2),
        (says(f"{PROSE} Write `found = sorted(self.vault.items(), key=secret_order)`."), "leaks", 2),
        (says(f"{PROSE} At last, `return found[:limit]`."), "leaks", 2),
        (says(f"{PROSE} First **sorted**(`self`.`vault`.`items`(), with key."), "leaks", 2),
    ],
)  # fmt: skip
def test_what_cannot_be_used_leaves_the_template(
    reply: Reply, reason: str, asked: int, caplog: pytest.LogCaptureFixture
) -> None:
    found, handler = written(reply)
    assert found.text == TEMPLATE.text
    assert found.report["writer"] == "template"
    assert found.report["fallback"] == reason
    assert found.report["model"] == "writer-1"
    assert len(handler.seen) == asked
    (record,) = caplog.records
    assert record.levelno == logging.WARNING
    assert handler.url in record.getMessage()
    assert "Shop.best" in record.getMessage()
    assert KEY not in caplog.text


def test_a_second_attempt_may_do_better() -> None:
    found, handler = written(says(f"{PROSE} {BODY.decode()}"), says(PROSE))
    assert found.report["writer"] == "llm"
    assert "secret_order" not in found.text
    assert len(handler.seen) == 2


@pytest.mark.parametrize("reply", [stall, trickle])
def test_an_answer_that_does_not_come_in_time_is_not_waited_for(reply: Reply) -> None:
    found, handler = written(reply, timeout=0.5)
    assert found.text == TEMPLATE.text
    assert found.report["fallback"] == "timeout"
    assert len(handler.seen) == 1


def test_what_the_template_says_may_be_said_again() -> None:
    run = "raises `ValueError` for a limit below zero, as all do"
    template = replace(TEMPLATE, text=TEMPLATE.text.replace("A method.", f"A method that {run}."))
    with serving(says(f"{PROSE} It {run}.")) as handler:
        removed = {"p/m.py::Shop.best:3": f"if limit < 0:\n    # {run}\n    fail()\n".encode()}
        assert author(handler.url).write(template, removed, name="Shop.best").report["writer"] == "llm"
        assert author(handler.url).write(TEMPLATE, removed, name="Shop.best").report["fallback"] == "leaks"


def test_an_endpoint_that_keeps_failing_is_given_up() -> None:
    with serving(status(429)) as handler:
        writer = author(handler.url)
        found = [writer.write(TEMPLATE, REMOVED, name="Shop.best").report["fallback"] for _ in range(5)]
    assert found == ["http_429"] * 3 + ["given_up"] * 2
    assert len(handler.seen) == 3


def test_an_endpoint_that_is_not_there_is_named_without_its_password(caplog: pytest.LogCaptureFixture) -> None:
    found = author(f"http://me:{KEY}@127.0.0.1:1/v1?key={KEY}").write(TEMPLATE, REMOVED, name="Shop.best")
    assert found.report["fallback"] == "unreachable"
    assert found.report["endpoint"] == "http://127.0.0.1:1/v1"
    assert "http://127.0.0.1:1/v1" in caplog.text
    assert KEY not in caplog.text
    assert KEY not in json.dumps(found.report)


@pytest.mark.parametrize(("url", "reason"), [("", "no_endpoint"), ("nonsense", "unreachable"), ("http://[", "unreachable")])
def test_an_address_that_is_none_leaves_the_template(url: str, reason: str) -> None:
    assert author(url).write(TEMPLATE, REMOVED, name="Shop.best").report["fallback"] == reason


def test_a_key_that_no_header_can_hold_is_not_shown(caplog: pytest.LogCaptureFixture) -> None:
    found = author("http://127.0.0.1:1", key=f"{KEY}\n\N{SNOWMAN}").write(TEMPLATE, REMOVED, name="Shop.best")
    assert found.report["fallback"] == "unreachable"
    assert KEY not in caplog.text


def test_without_a_key_none_is_sent() -> None:
    with serving(says(PROSE)) as handler:
        author(handler.url, key="").write(TEMPLATE, REMOVED, name="Shop.best")
    assert "Authorization" not in handler.seen[0][1]


def test_settings_name_the_endpoint_and_hide_the_key(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TASKFORGE_STATEMENT_BASE_URL", "http://localhost:8000/v1")
    monkeypatch.setenv("TASKFORGE_STATEMENT_MODEL", "m")
    monkeypatch.setenv("TASKFORGE_STATEMENT_API_KEY", KEY)
    endpoint = Endpoint.of(Settings())
    assert (endpoint.shown, endpoint.model, endpoint.timeout) == ("http://localhost:8000/v1", "m", 120.0)
    assert endpoint.api_key.get_secret_value() == KEY
    assert KEY not in repr(endpoint) + repr(Settings())
