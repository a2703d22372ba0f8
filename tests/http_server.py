"""A real HTTP server on loopback that misbehaves on request.

with LocalServer({"a.bin": content}) as server:
    server.pages["a.bin"].cuts = 1
    get(f"{server.url}/a.bin")
    assert server.requests == [("a.bin", None), ("a.bin", "bytes=1000-")]
"""

import re
import threading
from dataclasses import dataclass
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer


@dataclass
class Page:
    """What is served under one path, and how badly. Change the fields while the server runs."""

    content: bytes
    status: int = 200  # of every answer; other than 200: without the content
    ranges: bool = True  # false: a Range header is ignored
    shift: int = 0  # answers to Range begin this much later than asked for
    length: bool = True  # false: the length is not stated
    encoding: str = ""  # a Content-Encoding to claim
    cut_after: int = 0  # bytes of an answer, when it is cut
    cuts: int = 0  # how many answers are still to be cut; -1: all
    piece: int = 1 << 16  # bytes sent at a time
    hold: threading.Event | None = None  # after the first piece, wait until this is set
    tag: str = ""  # the ETag
    more: int = 0  # bytes that are sent beyond a range that was asked for
    redirect: str = ""  # send the client here instead


class _Handler(BaseHTTPRequestHandler):
    server: "_Server"

    def do_GET(self):
        path, asked = self.path.lstrip("/"), self.headers.get("Range")
        with self.server.local.lock:
            self.server.local.requests.append((path, asked))
            self.server.local.headers.append(dict(self.headers))
            page = self.server.local.pages.get(path) or Page(b"", status=404)
            cut = page.cuts != 0
            page.cuts -= page.cuts > 0
        if page.redirect:
            self._head(302, {"Location": page.redirect, "Content-Length": "0"})
        elif page.status != 200:
            self._head(page.status, {"Content-Length": "0"})
        else:
            self._serve(page, asked, cut)

    def _serve(self, page, asked, cut):
        found = re.fullmatch(r"bytes=(\d+)-(\d*)", asked or "") if page.ranges else None
        total, start = len(page.content), int(found[1]) + page.shift if found else 0
        stop = min(total, int(found[2]) + 1 + page.more) if found and found[2] else total
        if found and start >= total:
            self._head(416, {"Content-Range": f"bytes */{total}", "Content-Length": "0"})
            return
        fields = {"Content-Length": str(stop - start)} if page.length else {}
        if page.tag:
            fields["ETag"] = f'"{page.tag}"'
        if found:
            fields["Content-Range"] = f"bytes {start}-{stop - 1}/{total}"
        if page.encoding:
            fields["Content-Encoding"] = page.encoding
        self._head(206 if found else 200, fields)
        end = min(stop, start + page.cut_after) if cut else stop
        for first in range(start, end, page.piece):
            self.wfile.write(page.content[first : min(end, first + page.piece)])
            if page.hold:
                self.wfile.flush()
                page.hold.wait(60)

    def _head(self, status, fields):
        self.send_response(status)
        for name, value in fields.items():
            self.send_header(name, value)
        self.end_headers()

    def log_message(self, *args):
        pass


class _Server(ThreadingHTTPServer):
    daemon_threads = True
    block_on_close = False

    def __init__(self, local):
        self.local = local
        super().__init__(("127.0.0.1", 0), _Handler)

    def handle_error(self, request, client_address):
        """Clients that go away in the middle are what the tests are about."""


class LocalServer:
    """Serve `files` (path: content) until the block ends; `pages` may be changed, `requests` read, at any time."""

    def __init__(self, files=None):
        self.pages = {path: Page(content) for path, content in (files or {}).items()}
        self.requests = []  # (path, Range header or None)
        self.headers = []  # all headers of each request
        self.lock = threading.Lock()

    def __enter__(self):
        self._server = _Server(self)
        self.url = f"http://127.0.0.1:{self._server.server_port}"
        self._thread = threading.Thread(target=self._server.serve_forever, args=(0.02,), daemon=True)
        self._thread.start()
        return self

    def __exit__(self, *exception):
        self._server.shutdown()
        self._server.server_close()
        self._thread.join()
