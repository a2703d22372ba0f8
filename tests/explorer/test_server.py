"""The server through real sockets: who may send requests, how large they may be, and which status they get."""

import http.client
import io
import json
import socket
import threading
from collections.abc import Iterator
from contextlib import ExitStack

import numpy as np
import pytest
from PIL import Image

from narrows._util.errors import NarrowsError
from narrows.explorer import handlers
from narrows.explorer.inputs import MOST_UPLOADS
from narrows.explorer.server import REQUEST_BYTES, Server
from narrows.explorer.uploads import MOST_BYTES

JSON = {"Content-Type": "application/json"}


@pytest.fixture(scope="module")
def server(explorer) -> Iterator[Server]:
    with Server() as made:
        made.explore(explorer)
        thread = threading.Thread(target=made.serve_forever, kwargs={"poll_interval": 0.05})
        thread.start()
        yield made
        made.shutdown()
        thread.join()


def ask(server: Server, method: str, name: str, body: bytes | str | None = None, **headers: str):
    """Status, headers and content of one request under the token; headers have _ for -."""
    connection = http.client.HTTPConnection("127.0.0.1", server.port, timeout=240)
    sent = {key.replace("_", "-"): value for key, value in headers.items()}
    connection.request(method, name if name.startswith("/") else f"/{server.token}/{name}", body, sent)
    response = connection.getresponse()
    content = response.read()
    connection.close()
    return response.status, response.headers, content


def post(server: Server, name: str, content: object, **headers: str) -> tuple[int, dict]:
    status, _, body = ask(server, "POST", name, json.dumps(content), Content_Type="application/json", **headers)
    return status, json.loads(body)


def test_it_listens_on_this_machine_alone(server):
    assert server.socket.getsockname() == ("127.0.0.1", server.port)
    assert server.address == f"http://127.0.0.1:{server.port}/{server.token}/"
    assert len(server.token) >= 20


def test_the_page_and_its_files_are_read_and_forbid_everything_else(server):
    for name, kind in (("", "text/html"), ("explorer.css", "text/css"), ("explorer.js", "text/javascript")):
        status, headers, content = ask(server, "GET", name)
        assert status == 200
        assert headers.get_content_type() == kind
        assert int(headers["Content-Length"]) == len(content) > 500
        policy = headers["Content-Security-Policy"]
        assert policy.startswith("default-src 'none'; script-src 'self'; style-src 'self';")
        assert "unsafe" not in policy
        assert headers["X-Content-Type-Options"] == "nosniff"
        assert headers["Referrer-Policy"] == "no-referrer"
        assert "Python" not in headers["Server"]
    assert server.token.encode() not in content


def test_without_its_last_slash_the_address_leads_to_the_page(server):
    status, headers, content = ask(server, "GET", f"/{server.token}")
    assert (status, headers["Location"], content) == (308, f"/{server.token}/", b"")
    assert ask(server, "GET", headers["Location"])[0] == 200
    assert ask(server, "GET", f"/{server.token}x")[0] == 404
    assert ask(server, "POST", f"/{server.token}", "{}", Content_Type="application/json")[0] == 405


def test_many_connections_may_wait_at_once():
    """Nobody is accepted here: all must be able to wait."""
    with Server() as busy, ExitStack() as opened:
        for _ in range(100):
            opened.enter_context(socket.create_connection(("127.0.0.1", busy.port), timeout=240))


def test_requests_get_the_models_response_over_one_connection(server, explorer):
    connection = http.client.HTTPConnection("127.0.0.1", server.port, timeout=240)
    for code in ([0.0, 0.0, 0.0], [1.0, -1.0, 0.5]):
        asked = {"model": 0, "code": code, "input": "test-1", "off": [2]}
        connection.request("POST", f"/{server.token}/decode", json.dumps(asked), JSON)
        response = connection.getresponse()
        assert response.status == 200
        assert json.loads(response.read()) == handlers.decode(explorer, asked)
        assert not response.will_close
    connection.close()


def test_an_upload_is_an_input_from_then_on(server, explorer):
    file = io.BytesIO()
    Image.fromarray((255 * explorer.inputs.held[5, 0]).round().numpy().astype(np.uint8)).save(file, "PNG")
    status, _, content = ask(server, "POST", "upload", file.getvalue(), Content_Type="application/octet-stream")
    assert status == 200
    name = json.loads(content)["input"]
    status, seen = post(server, "input", {"model": 0, "input": name})
    assert status == 200
    assert seen == post(server, "input", {"model": 0, "input": "test-5"})[1]


def test_an_upload_that_is_gone_is_named_for_the_page_but_not_for_the_reader(server, explorer):
    name = explorer.inputs.add(explorer.inputs.held[:1])
    for _ in range(MOST_UPLOADS):
        explorer.inputs.add(explorer.inputs.held[:1])
    status, answer = post(server, "between", {"model": 0, "inputs": ["test-0", name]})
    assert (status, answer["gone"]) == (422, name)
    assert name not in answer["error"]


def test_a_bad_upload_and_a_bad_request_are_named_and_the_server_goes_on(server):
    status, _, content = ask(server, "POST", "upload", b"no picture", Content_Type="application/octet-stream")
    assert status == 422
    assert "it is not one of PNG, JPEG, WEBP" in json.loads(content)["error"]
    status, answer = post(server, "decode", {"model": 0, "code": [1]})
    assert (status, answer["error"]) == (422, "a code of this model has 3 numbers; reload the page")
    assert post(server, "model", {"model": 0})[0] == 200


@pytest.mark.parametrize("host", ["evil.example:{}", "127.0.0.1", "127.0.0.1:1", "localhost.evil:{}", ""])
def test_a_foreign_name_for_this_machine_is_refused(server, host):
    """As in DNS rebinding: another site's page sends requests under its own name."""
    assert ask(server, "GET", "", Host=host.format(server.port))[0] == 403
    assert post(server, "model", {"model": 0}, Host=host.format(server.port))[0] == 403


def test_localhost_is_a_name_of_this_machine(server):
    port = server.port
    asked = {"Host": f"localhost:{port}", "Origin": f"http://localhost:{port}"}
    assert post(server, "model", {"model": 0}, **asked)[0] == 200


@pytest.mark.parametrize("origin", ["http://evil.example", "null", "http://127.0.0.1:1", "https://127.0.0.1:{}"])
def test_requests_from_another_page_are_refused(server, origin):
    assert post(server, "model", {"model": 0}, Origin=origin.format(server.port))[0] == 403


@pytest.mark.parametrize("path", ["/", "/x/", "/{}x/", "/{}/../", "/{}/a/b", "/favicon.ico", "/{}/%2e%2e/etc"])
def test_nothing_else_is_there(server, path):
    assert ask(server, "GET", path.format(server.token))[0] == 404
    assert ask(server, "POST", path.format(server.token), "{}", **{"Content_Type": "application/json"})[0] == 404


def test_only_post_does_something(server):
    status, headers, _ = ask(server, "GET", "decode")
    assert (status, headers["Allow"]) == (405, "POST")
    status, headers, _ = ask(server, "POST", "", "{}", Content_Type="application/json")
    assert (status, headers["Allow"]) == (405, "GET")
    assert ask(server, "PUT", "decode", "{}")[0] == 501


def raw(server: Server, *lines: str, body: bytes = b"") -> bytes:
    """The first line of what comes back for a request that is written by hand."""
    head = [f"POST /{server.token}/{lines[0]} HTTP/1.1", f"Host: 127.0.0.1:{server.port}", *lines[1:]]
    with socket.create_connection(("127.0.0.1", server.port), timeout=240) as connection:
        connection.sendall("\r\n".join([*head, "", ""]).encode() + body)
        return connection.makefile("rb").readline()


def test_bodies_are_refused_by_their_stated_length_before_they_are_sent(server):
    kind = "Content-Type: application/octet-stream"
    assert b" 413 " in raw(server, "upload", kind, f"Content-Length: {MOST_BYTES + 1}")
    assert b" 413 " in raw(server, "decode", "Content-Type: application/json", f"Content-Length: {REQUEST_BYTES + 1}")
    assert b" 413 " in raw(server, "upload", kind, f"Content-Length: {'9' * 5000}")
    assert b" 411 " in raw(server, "upload", kind)
    assert b" 411 " in raw(server, "upload", kind, "Content-Length: -1")
    assert b" 411 " in raw(server, "upload", kind, "Content-Length: 2", "Transfer-Encoding: chunked")


def test_the_kind_of_a_body_is_checked(server):
    """A form of another page cannot send these kinds without being asked first."""
    for kind in ("text/plain", "application/x-www-form-urlencoded", "multipart/form-data"):
        assert ask(server, "POST", "decode", "{}", Content_Type=kind)[0] == 415
        assert ask(server, "POST", "upload", "{}", Content_Type=kind)[0] == 415


@pytest.mark.parametrize("body", ["", "{", "[]", "7", "[" * 100_000, "\ud800".encode("utf-8", "surrogatepass")])
def test_a_request_that_is_not_a_json_object_is_refused(server, body):
    assert ask(server, "POST", "decode", body, Content_Type="application/json")[0] == 400


def test_an_internal_error_is_one_sentence_on_the_page_and_a_traceback_in_the_terminal(server, monkeypatch, capsys):
    def broken(explorer: object, asked: object) -> dict:
        raise ZeroDivisionError("secret")

    monkeypatch.setitem(handlers.HANDLERS, "check", broken)
    status, answer = post(server, "check", {"model": 0})
    assert status == 500
    assert "secret" not in answer["error"]
    assert "ZeroDivisionError: secret" in capsys.readouterr().err


def test_a_closed_connection_does_no_harm(server, capsys):
    with socket.create_connection(("127.0.0.1", server.port)) as connection:
        lines = [f"POST /{server.token}/decode HTTP/1.1", f"Host: 127.0.0.1:{server.port}"]
        lines += ["Content-Type: application/json", "Content-Length: 100", "", "half"]
        connection.sendall("\r\n".join(lines).encode())
    assert post(server, "model", {"model": 0})[0] == 200
    assert capsys.readouterr().err == ""


def test_a_port_in_use_is_named():
    with Server() as first, pytest.raises(NarrowsError, match=f"port={first.port} is in use; choose another"):
        Server(first.port)
