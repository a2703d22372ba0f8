"""What a browser may send to the explorer: uploads, requests in JSON, and bytes that are no HTTP at all."""

import http.client
import json
import socket
import threading
from collections.abc import Sequence
from functools import cache
from pathlib import Path
from random import Random

from explorers import untrained
from faults.data_targets import pixels
from faults.mutators import mutate_bytes, mutate_image, mutate_json
from faults.target import Broken, Target
from narrows import NarrowsError
from narrows.explorer.server import Server
from narrows.explorer.uploads import read_upload

SECONDS = 5
TOKEN = b"TOKEN"
"""What stands for the server's token in the stored requests."""
REQUESTS = {
    "model": {"model": 0},
    "input": {"model": 0, "input": "test-0"},
    "decode": {"model": 0, "code": [0.0, 1.0, -1.0], "off": [1], "input": "test-3"},
    "check": {"model": 0, "off": [0, 2]},
    "between": {"model": 0, "inputs": ["test-0", "test-1"], "off": []},
}


@cache
def server() -> Server:
    """Return the explorer's server, which listens in a thread of this process."""
    made = Server()
    made.explore(untrained())
    threading.Thread(target=made.serve_forever, kwargs={"poll_interval": 0.05}, daemon=True).start()
    return made


def _uploads(folder: Path) -> None:
    from PIL import Image

    Image.fromarray(pixels(20, 30, 3)).save(folder / "photo.jpg")
    Image.fromarray(pixels(16, 16)).save(folder / "grey.png")
    Image.fromarray(pixels(9, 9, 4)).save(folder / "clear.webp")


def _read_upload(folder: Path, victim: Path, rng: Random) -> None:
    read_upload(victim.read_bytes(), rng.choice(((1, 16, 16), (3, 8, 12))), 0.0, 1.0)


def _requests(folder: Path) -> None:
    for name, request in REQUESTS.items():
        (folder / f"{name}.json").write_text(json.dumps(request))


def _send_request(folder: Path, victim: Path, rng: Random) -> None:
    """Post a request, and an error must be one sentence in JSON."""
    connection = http.client.HTTPConnection("127.0.0.1", server().port, timeout=SECONDS)
    try:
        headers = {"Content-Type": "application/json"}
        connection.request("POST", f"/{server().token}/{victim.stem}", victim.read_bytes(), headers)
        response = connection.getresponse()
        answer = json.loads(response.read())
    finally:
        connection.close()
    if response.status not in (200, 400, 413, 422):
        raise Broken(f"the explorer answers with status {response.status}: {answer}")
    if response.status != 200:
        raise NarrowsError(answer["error"])


def _http(folder: Path) -> None:
    body = json.dumps(REQUESTS["check"]).encode()
    head = b"Host: 127.0.0.1:PORT\r\nContent-Type: application/json\r\nContent-Length: %d\r\n\r\n" % len(body)
    (folder / "get").write_bytes(b"GET /" + TOKEN + b"/ HTTP/1.1\r\nHost: 127.0.0.1:PORT\r\n\r\n")
    (folder / "post").write_bytes(b"POST /" + TOKEN + b"/check HTTP/1.1\r\n" + head + body)
    (folder / "upload").write_bytes(
        b"POST /" + TOKEN + b"/upload HTTP/1.1\r\n" + head.replace(b"json", b"octet-stream") + body
    )


def _send_bytes(folder: Path, victim: Path, rng: Random) -> None:
    """Send bytes and no more; the server must answer or close, and answer the next request."""
    here = server()
    content = victim.read_bytes().replace(TOKEN, here.token.encode()).replace(b"PORT", str(here.port).encode())
    with socket.create_connection(("127.0.0.1", here.port), SECONDS) as connection:
        try:
            connection.sendall(content)
            connection.shutdown(socket.SHUT_WR)
            answer = b"".join(iter(lambda: connection.recv(65_536), b""))
        except ConnectionError:
            answer = b""
    if b" 500 " in answer[:20]:
        raise Broken(f"the explorer answers {answer[:200]!r}")
    (folder / "check.json").write_text(json.dumps(REQUESTS["check"]))
    _send_request(folder, folder / "check.json", rng)
    if b" 200 " not in answer[:20] and b" 422 " not in answer[:20]:
        raise NarrowsError(f"refused with {answer[:40]!r}")


def _mutate_http(rng: Random, content: bytes, others: Sequence[bytes]) -> bytes:
    """Change lines of a request's head, or its bytes."""
    if rng.random() < 0.5:
        return mutate_bytes(rng, content, others)
    head, separator, body = content.partition(b"\r\n\r\n")
    lines = head.split(b"\r\n")
    odd = (
        b"Content-Length: -1", b"Content-Length: 99999999999999999999", b"Content-Length: 1e3",
        b"Transfer-Encoding: chunked",
        b"Host: example.org", b"Origin: http://example.org", b"X: " + b"a" * 70_000,
        b"Content-Type: text/\xff", b"Expect: 100-continue",
        b"Content-Length: 5", b": empty", b"Connection: keep-alive", b"PUT / HTTP/9.9",
        b"GET //../../etc/passwd HTTP/1.1",
        b"POST /TOKEN/\xc3\xa9 HTTP/1.1", b"GET /TOKEN/%2e%2e/x HTTP/1.0", b"POST /\xff/check HTTP/1.1",
    )  # fmt: skip
    at = rng.randrange(len(lines) + 1)
    lines[at : at + rng.randrange(2)] = [rng.choice(odd)]
    return b"\r\n".join(lines) + separator + body


TARGETS = (
    Target("upload", _uploads, _read_upload, mutate_image),
    Target("request", _requests, _send_request, mutate_json),
    Target("http", _http, _send_bytes, _mutate_http, writes=True),
)
