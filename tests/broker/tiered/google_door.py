"""The requests of Google's XML API that fake-gcs-server has not, by those of its JSON API.

The client in use writes by the XML API only: a put, an upload in parts, a copy. fake-gcs-server
knows these as an insert, a compose and a rewrite, and checks their preconditions. All other
requests pass unchanged: reads, ranges, lists, deletions. So the objects, their times, the ranges
and the refusals are the server's own.
"""

from __future__ import annotations

import http.client
import json
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from itertools import count
from typing import Final
from urllib.parse import parse_qs, quote, unquote, urlencode, urlsplit

_UPLOADS: Final = "moldau-uploads"
_PASSED: Final = ("range", "x-goog-if-generation-match", "if-match", "if-none-match")
_RETURNED: Final = (
    *("content-range", "etag", "last-modified", "x-goog-generation", "content-type"),
    "x-goog-stored-content-length",
)
_numbers: Final = count(1)


@contextmanager
def google_door(server_port: int) -> Iterator[int]:
    """Open a door to the server, and yield its port."""
    door = ThreadingHTTPServer(("127.0.0.1", 0), type("Bound", (_Door,), {"port": server_port}))
    door.daemon_threads = True
    thread = threading.Thread(target=door.serve_forever, args=(0.05,), daemon=True)
    thread.start()
    try:
        yield door.server_address[1]
    finally:
        door.shutdown()
        door.server_close()
        thread.join()


class _Door(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    port: int

    def do_GET(self) -> None:
        self._pass()

    do_HEAD = do_DELETE = do_GET

    def do_PUT(self) -> None:
        """A put, a part of an upload, or a copy."""
        body, bucket, name, query = self._given()
        if "uploadId" in query:
            part = f"{_UPLOADS}/{query['uploadId'][0]}/{int(query['partNumber'][0]):05d}"
            self._made(self._insert(bucket, part, body, {}))
            return
        source = self.headers.get("x-goog-copy-source")
        if source is None:
            self._made(self._insert(bucket, name, body, self._precondition()))
            return
        of_bucket, _, of_name = unquote(source).strip("/").partition("/")
        path = f"/storage/v1/b/{of_bucket}/o/{quote(of_name, '')}/rewriteTo"
        path += f"/b/{bucket}/o/{quote(name, '')}?{urlencode(self._precondition())}"
        self._made(self._ask("POST", path), b"<CopyObjectResult/>")

    def do_POST(self) -> None:
        """The begin and the end of an upload."""
        _, bucket, name, query = self._given()
        if "uploads" in query:
            text = f"<UploadId>{next(_numbers):06d}</UploadId>"
            text = f"<InitiateMultipartUploadResult>{text}</InitiateMultipartUploadResult>"
            self._answer(200, text.encode())
            return
        folder = f"{_UPLOADS}/{query['uploadId'][0]}/"
        _, listed, _ = self._ask("GET", f"/storage/v1/b/{bucket}/o?{urlencode({'prefix': folder})}")
        parts = sorted(each["name"] for each in json.loads(listed).get("items", ()))
        made = self._ask(
            "POST",
            f"/storage/v1/b/{bucket}/o/{quote(name, '')}/compose",
            json.dumps({"sourceObjects": [{"name": each} for each in parts]}).encode(),
        )
        for each in parts:
            self._ask("DELETE", f"/storage/v1/b/{bucket}/o/{quote(each, '')}")
        text = "<ETag>composed</ETag>"
        self._made(
            made, f"<CompleteMultipartUploadResult>{text}</CompleteMultipartUploadResult>".encode()
        )

    def _given(self) -> tuple[bytes, str, str, dict[str, list[str]]]:
        body = self.rfile.read(int(self.headers.get("content-length", 0)))
        url = urlsplit(self.path)
        bucket, _, name = url.path.strip("/").partition("/")
        return body, bucket, unquote(name), parse_qs(url.query, keep_blank_values=True)

    def _precondition(self) -> dict[str, str]:
        wanted = self.headers.get("x-goog-if-generation-match")
        return {} if wanted is None else {"ifGenerationMatch": wanted}

    def _insert(
        self, bucket: str, name: str, body: bytes, precondition: dict[str, str]
    ) -> tuple[int, bytes, dict[str, str]]:
        query = urlencode({"uploadType": "media", "name": name, **precondition})
        return self._ask("POST", f"/upload/storage/v1/b/{bucket}/o?{query}", body)

    def _pass(self) -> None:
        headers = {name: self.headers[name] for name in _PASSED if name in self.headers}
        status, body, found = self._ask(self.command, self.path, None, headers)
        self._answer(status, body, found)

    def _ask(
        self,
        method: str,
        path: str,
        body: bytes | None = None,
        headers: dict[str, str] | None = None,
    ) -> tuple[int, bytes, dict[str, str]]:
        connection = http.client.HTTPConnection("127.0.0.1", self.port)
        try:
            connection.request(method, path, body, headers or {})
            answer = connection.getresponse()
            found = {name.lower(): value for name, value in answer.getheaders()}
            return answer.status, answer.read(), found
        finally:
            connection.close()

    def _made(self, made: tuple[int, bytes, dict[str, str]], text: bytes = b"") -> None:
        """Answer with what became of an object: its ETag, or why there is none."""
        status, body, _ = made
        if status >= 300:
            self._answer(status, body)
            return
        self._answer(200, text, {"etag": '"stored"'})

    def _answer(self, status: int, body: bytes, headers: dict[str, str] | None = None) -> None:
        found = headers or {}
        self.send_response(status)
        for name in _RETURNED:
            if name in found:
                self.send_header(name, found[name])
        size = found.get("content-length") if self.command == "HEAD" else None
        self.send_header("content-length", size or str(len(body)))
        self.end_headers()
        if self.command != "HEAD":
            self.wfile.write(body)

    def log_message(self, *_: object) -> None:
        """Write no log."""
