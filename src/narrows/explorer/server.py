"""The server: one page, its two files, five requests and uploads, on 127.0.0.1 only.

Neither other pages in the same browser nor other users of the machine may reach it. So every address begins with a
random token; the Host header must name 127.0.0.1 or localhost with our port (a foreign name that was made to point here
differs), and Origin, if it is sent, must be this page's. Only POST does anything. Bodies must state their length, which
is checked against a limit before they are read; connections time out; and no path on the disk is ever opened.

One lock lets one request at a time use the models: decoding takes milliseconds, and two at once would only compete for
the processor.
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

from narrows._util.errors import NarrowsError, setting
from narrows.explorer import page, uploads
from narrows.explorer.handlers import HANDLERS
from narrows.explorer.inputs import Gone
from narrows.explorer.models import Explorer

ADDRESS = "127.0.0.1"
REQUEST_BYTES = 200_000
SECONDS = 60
"""The time after which a silent connection is closed."""
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
    """A request that is answered by a status and a sentence only."""

    def __init__(self, status: HTTPStatus, sentence: str, **headers: str) -> None:
        super().__init__(sentence)
        self.status, self.headers = status, headers


class Server(ThreadingTCPServer):
    """A server that holds its port from the start; `explore` gives it a page."""

    explorer: Explorer
    timeout = 0.1  # seconds for which `handle_request` waits
    daemon_threads, block_on_close = True, False
    request_queue_size = 128  # connections that may wait; Python's default of 5 is too few
    allow_reuse_address = os.name == "posix"  # elsewhere it would let two servers share a port

    def __init__(self, port: int = 0) -> None:
        self.lock = threading.Lock()
        self.token = secrets.token_urlsafe(16)
        try:
            super().__init__((ADDRESS, port), Handler)
        except OSError as error:
            reason = "is in use" if error.errno == errno.EADDRINUSE else f"cannot be used ({error.strerror})"
            raise NarrowsError(
                f"{setting('port', port)} {reason}; choose another, or leave it out for a free one"
            ) from error

    @property
    def port(self) -> int:
        """The port that the server listens on."""
        return int(self.server_address[1])

    @property
    def address(self) -> str:
        """The address of the page."""
        return f"http://{ADDRESS}:{self.port}/{self.token}/"

    def explore(self, explorer: Explorer) -> None:
        """Make the page."""
        self.explorer = explorer
        self.files: dict[str, tuple[str, bytes]] = page.files(explorer)

    def handle_error(self, request: Any, client_address: Any) -> None:
        """Print what went wrong, unless the browser closed the connection."""
        if not isinstance(sys.exception(), ConnectionError | TimeoutError):
            traceback.print_exc()


class Handler(BaseHTTPRequestHandler):
    """One connection, which may send several requests, one after the other."""

    server: Server
    protocol_version, server_version, sys_version = "HTTP/1.1", "narrows", ""
    timeout, wbufsize, disable_nagle_algorithm = SECONDS, -1, True

    def do_GET(self) -> None:
        """Send the page or one of its files."""
        self._answer(self._file)

    def do_POST(self) -> None:
        """Handle a request or an upload."""
        self._answer(self._request)

    def _file(self, name: str) -> None:
        if self.path == f"/{self.server.token}":  # without the last slash the page would look for its files elsewhere
            self._send(HTTPStatus.PERMANENT_REDIRECT, "text/plain", b"", Location=f"{self.path}/")
        else:
            self._send(HTTPStatus.OK, *self.server.files[name])

    def _request(self, name: str) -> None:
        explorer = self.server.explorer
        if name == "upload":
            content = self._body("application/octet-stream", uploads.MOST_BYTES)
            with self.server.lock:
                x, changes = uploads.read_upload(content, explorer.inputs.shape, *explorer.inputs.levels)
                self._json(HTTPStatus.OK, {"input": explorer.inputs.add(x), "changes": changes})
            return
        content = self._body("application/json", REQUEST_BYTES)
        try:
            request = json.loads(content)
        except (ValueError, RecursionError) as error:
            raise Refused(HTTPStatus.BAD_REQUEST, "the request is not JSON") from error
        if not isinstance(request, dict):
            raise Refused(HTTPStatus.BAD_REQUEST, "the request is not a JSON object")
        with self.server.lock:
            response = HANDLERS[name](explorer, request)
        self._json(HTTPStatus.OK, response)

    def _answer(self, handle: Callable[[str], None]) -> None:
        """Check the sender and handle the request; every failure gets a status and a sentence."""
        try:
            handle(self._name())
        except Refused as refused:
            self._json(refused.status, {"error": str(refused)}, Connection="close", **refused.headers)
        except NarrowsError as error:
            gone = {"gone": error.name} if isinstance(error, Gone) else {}
            self._json(HTTPStatus.UNPROCESSABLE_ENTITY, {"error": str(error), **gone})
        except (ConnectionError, TimeoutError):
            self.close_connection = True
        except Exception:  # our fault: the page says so, the terminal shows where
            traceback.print_exc()
            sentence = "Something went wrong; the terminal that runs `narrows explore` shows what."
            self._json(HTTPStatus.INTERNAL_SERVER_ERROR, {"error": sentence}, Connection="close")

    def _name(self) -> str:
        """Return what is requested, if the sender may request it."""
        host, origin = self.headers.get("Host", ""), self.headers.get("Origin")
        if host not in {f"{name}:{self.server.port}" for name in (ADDRESS, "localhost")}:
            raise Refused(HTTPStatus.FORBIDDEN, "this server answers to 127.0.0.1 only")
        if origin not in (None, f"http://{host}"):
            raise Refused(HTTPStatus.FORBIDDEN, "requests from other pages are refused")
        _, token, name, *more = [*self.path.split("/"), "", ""]
        if any(more) or not hmac.compare_digest(token.encode(), self.server.token.encode()):
            raise Refused(HTTPStatus.NOT_FOUND, "open the address that `narrows explore` prints")
        if name not in {*self.server.files, *HANDLERS, "upload"}:
            raise Refused(HTTPStatus.NOT_FOUND, "not found")
        method = "GET" if name in self.server.files else "POST"
        if method != self.command:
            raise Refused(HTTPStatus.METHOD_NOT_ALLOWED, f"use {method}", Allow=method)
        return name

    def _body(self, kind: str, most: int) -> bytes:
        if self.headers.get_content_type() != kind:
            raise Refused(HTTPStatus.UNSUPPORTED_MEDIA_TYPE, f"the body must be {kind}")
        length = self.headers.get("Content-Length", "")
        if not (length.isascii() and length.isdigit()) or "Transfer-Encoding" in self.headers:
            raise Refused(HTTPStatus.LENGTH_REQUIRED, "the body must have a stated length")
        if len(length) > 12 or int(length) > most:
            sentence = f"this has {length[:20]} bytes; the limit is {most:,}: make it smaller"
            raise Refused(HTTPStatus.REQUEST_ENTITY_TOO_LARGE, sentence)
        content = self.rfile.read(int(length))
        if len(content) < int(length):
            raise ConnectionAbortedError("the sender closed the connection")
        return content

    def _json(self, status: HTTPStatus, response: dict[str, Any], **headers: str) -> None:
        self._send(status, "application/json", json.dumps(response, allow_nan=False).encode(), **headers)

    def _send(self, status: HTTPStatus, kind: str, content: bytes, **headers: str) -> None:
        self.send_response(status)
        about = {"Content-Type": kind, "Content-Length": str(len(content))}
        for name, value in {**HEADERS, **about, **headers}.items():
            self.send_header(name, value)
        self.end_headers()
        self.wfile.write(content)

    def log_message(self, format: str, *args: Any) -> None:
        """Log nothing: the page shows what happens."""
