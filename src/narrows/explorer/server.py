"""The server: one page, its two files, five questions and uploads, on 127.0.0.1 and nowhere else.

Other pages in the same browser must not reach it, nor other users of the machine. So every address begins with a random
token; the Host header must name 127.0.0.1 or localhost with our port (a foreign name that was made to point here has
another), and Origin, if there is one, must be this page's. Only POST does anything. Bodies have a stated length
within a limit that is checked before they are read, connections time out, and no path of the disk is ever looked at.

One lock lets one question at a time use the models: a decoding takes milliseconds, and two at once would only take
each other's processor.
"""

import errno
import hmac
import json
import os
import secrets
import sys
import threading
import traceback
from collections.abc import Callable
from http import HTTPStatus
from http.server import BaseHTTPRequestHandler
from socketserver import ThreadingTCPServer
from typing import Any

from narrows.errors import NarrowsError
from narrows.explorer import page, uploads
from narrows.explorer.answers import QUESTIONS
from narrows.explorer.inputs import Gone
from narrows.explorer.models import Explorer

ADDRESS = "127.0.0.1"
QUESTION_BYTES = 200_000
SECONDS = 60
"""Until a silent connection is closed."""
POLICY = (
    "default-src 'none'; script-src 'self'; style-src 'self'; img-src data:; connect-src 'self'; "
    "base-uri 'none'; form-action 'none'; frame-ancestors 'none'"
)
HEADERS = {
    "Content-Security-Policy": POLICY,
    "Cache-Control": "no-store",
    "Referrer-Policy": "no-referrer",
    "X-Content-Type-Options": "nosniff",
    "Cross-Origin-Resource-Policy": "same-origin",
}


class Refused(Exception):
    """A request that gets no answer but a status and a sentence."""

    def __init__(self, status: HTTPStatus, sentence: str, **headers: str) -> None:
        super().__init__(sentence)
        self.status, self.headers = status, headers


class Server(ThreadingTCPServer):
    """Holds the port from the start; `explore` gives it something to show."""

    daemon_threads, block_on_close = True, False
    request_queue_size = 128  # connections that may wait; Python's own five are soon too few
    allow_reuse_address = os.name == "posix"  # elsewhere it would let two servers share a port

    def __init__(self, port: int = 0) -> None:
        self.explorer: Explorer | None = None
        self.lock = threading.Lock()
        self.token = secrets.token_urlsafe(16)
        try:
            super().__init__((ADDRESS, port), Handler)
        except OSError as error:
            why = "is in use" if error.errno == errno.EADDRINUSE else f"cannot be used ({error.strerror})"
            raise NarrowsError(f"--port {port} {why}; choose another, or leave it out for a free one") from error

    @property
    def port(self) -> int:
        """The port that is held."""
        return int(self.server_address[1])

    @property
    def address(self) -> str:
        """Where the page is."""
        return f"http://{ADDRESS}:{self.port}/{self.token}/"

    def explore(self, explorer: Explorer) -> None:
        """Make the page."""
        self.explorer = explorer
        self.files: dict[str, tuple[str, bytes]] = page.files(explorer)

    def handle_error(self, request: Any, client_address: Any) -> None:
        """A reader who went away is no fault."""
        if not isinstance(sys.exception(), ConnectionError | TimeoutError):
            traceback.print_exc()


class Handler(BaseHTTPRequestHandler):
    """One connection: several requests, one after the other."""

    server: Server
    protocol_version, server_version, sys_version = "HTTP/1.1", "narrows", ""
    timeout, wbufsize, disable_nagle_algorithm = SECONDS, -1, True

    def do_GET(self) -> None:
        """Give the page or one of its files."""
        self._answer(self._file)

    def do_POST(self) -> None:
        """Answer a question or take an upload."""
        self._answer(self._question)

    def _file(self, name: str) -> None:
        if self.path == f"/{self.server.token}":  # without the last slash the page would look for its files elsewhere
            self._send(HTTPStatus.PERMANENT_REDIRECT, "text/plain", b"", {"Location": f"{self.path}/"})
        elif name in self.server.files:
            self._send(HTTPStatus.OK, *self.server.files[name])
        elif name in QUESTIONS or name == "upload":
            raise Refused(HTTPStatus.METHOD_NOT_ALLOWED, "this is asked with POST", Allow="POST")
        else:
            raise Refused(HTTPStatus.NOT_FOUND, "there is nothing here")

    def _question(self, name: str) -> None:
        explorer = self.server.explorer
        assert explorer is not None
        if name == "upload":
            content = self._body("application/octet-stream", uploads.MOST_BYTES)
            with self.server.lock:
                x, told = uploads.read_upload(content, explorer.inputs.shape, *explorer.inputs.levels)
                self._json(HTTPStatus.OK, {"input": explorer.inputs.add(x), "told": told})
        elif name in QUESTIONS:
            content = self._body("application/json", QUESTION_BYTES)
            try:
                question = json.loads(content)
            except (ValueError, RecursionError) as error:
                raise Refused(HTTPStatus.BAD_REQUEST, "the question is not JSON") from error
            if not isinstance(question, dict):
                raise Refused(HTTPStatus.BAD_REQUEST, "the question is not a JSON object")
            with self.server.lock:
                answer = QUESTIONS[name](explorer, question)
            self._json(HTTPStatus.OK, answer)
        elif name in self.server.files:
            raise Refused(HTTPStatus.METHOD_NOT_ALLOWED, "this is read with GET", Allow="GET")
        else:
            raise Refused(HTTPStatus.NOT_FOUND, "there is nothing here")

    def _answer(self, work: Callable[[str], None]) -> None:
        """Check who asks, do the work, and give every failure a status and a sentence."""
        try:
            work(self._name())
        except Refused as refused:
            self._json(refused.status, {"error": str(refused)}, refused.headers, close=True)
        except Gone as error:
            self._json(HTTPStatus.UNPROCESSABLE_ENTITY, {"error": str(error), "gone": error.name})
        except NarrowsError as error:
            self._json(HTTPStatus.UNPROCESSABLE_ENTITY, {"error": str(error)})
        except (ConnectionError, TimeoutError):
            self.close_connection = True
        except Exception:  # our fault: the page says so, the terminal shows where
            traceback.print_exc()
            sentence = "Something broke; the terminal in which `narrows explore` runs shows what."
            self._json(HTTPStatus.INTERNAL_SERVER_ERROR, {"error": sentence}, close=True)

    def _name(self) -> str:
        """Return what is asked for, if the one who asks may."""
        host, origin = self.headers.get("Host", ""), self.headers.get("Origin")
        if host not in {f"{name}:{self.server.port}" for name in (ADDRESS, "localhost")}:
            raise Refused(HTTPStatus.FORBIDDEN, "this server answers to 127.0.0.1 only")
        if origin not in (None, f"http://{host}"):
            raise Refused(HTTPStatus.FORBIDDEN, "another page may not ask")
        _, token, name, *more = [*self.path.split("/"), "", ""]
        if any(more) or not hmac.compare_digest(token.encode(), self.server.token.encode()):
            raise Refused(HTTPStatus.NOT_FOUND, "open the address that `narrows explore` says")
        return name

    def _body(self, kind: str, most: int) -> bytes:
        if self.headers.get_content_type() != kind:
            raise Refused(HTTPStatus.UNSUPPORTED_MEDIA_TYPE, f"the body must be {kind}")
        length = self.headers.get("Content-Length", "")
        if not (length.isascii() and length.isdigit()) or "Transfer-Encoding" in self.headers:
            raise Refused(HTTPStatus.LENGTH_REQUIRED, "the body must have a stated length")
        if len(length) > 12 or int(length) > most:
            sentence = f"this has {length[:20]} bytes; at most {most:,} are taken: make it smaller"
            raise Refused(HTTPStatus.REQUEST_ENTITY_TOO_LARGE, sentence)
        content = self.rfile.read(int(length))
        if len(content) < int(length):
            raise ConnectionAbortedError("the sender went away")
        return content

    def _json(
        self, status: HTTPStatus, answer: dict[str, Any], headers: dict[str, str] | None = None, close: bool = False
    ) -> None:
        content = json.dumps(answer, allow_nan=False).encode()
        self._send(status, "application/json", content, headers or {}, close)

    def _send(
        self,
        status: HTTPStatus,
        kind: str,
        content: bytes,
        headers: dict[str, str] | None = None,
        close: bool = False,
    ) -> None:
        self.send_response(status)
        for name, value in {**HEADERS, **(headers or {})}.items():
            self.send_header(name, value)
        self.send_header("Content-Type", kind)
        self.send_header("Content-Length", str(len(content)))
        if close:
            self.send_header("Connection", "close")
        self.end_headers()
        self.wfile.write(content)

    def log_message(self, format: str, *args: Any) -> None:
        """Say nothing: the page is where things are shown."""
