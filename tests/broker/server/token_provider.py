"""A provider of tokens and of their keys, on a thread of its own."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer


class Provider:
    """What the URL answers now, and how often it was asked."""

    def __init__(self, body: bytes) -> None:
        self.status = 200
        self.body = body
        self.asked = 0
        self.url = ""
        self.forms: list[tuple[str | None, str]] = []
        """The header Authorization and the body of each POST."""
        self.make_token: Callable[[], bytes] = bytes
        self.may_answer = threading.Event()
        self.may_answer.set()


@contextmanager
def provider(body: bytes = b"") -> Iterator[Provider]:
    found = Provider(body)

    class Answers(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            found.asked += 1
            found.may_answer.wait(60)
            self._answer(found.body)

        def do_POST(self) -> None:
            form = self.rfile.read(int(self.headers["Content-Length"])).decode()
            found.forms.append((self.headers["Authorization"], form))
            self._answer(found.make_token())

        def _answer(self, body: bytes) -> None:
            self.send_response(found.status)
            self.end_headers()
            self.wfile.write(body)

        def log_message(self, *_: object) -> None:
            """Log nothing."""

    with ThreadingHTTPServer(("127.0.0.1", 0), Answers) as server:
        found.url = f"http://127.0.0.1:{server.server_port}/keys"
        thread = threading.Thread(target=server.serve_forever, args=(0.01,))
        thread.start()
        try:
            yield found
        finally:
            server.shutdown()
            thread.join()
