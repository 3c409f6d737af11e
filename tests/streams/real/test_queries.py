"""Two processes of an app: each key is found at either one, also while they share out anew. They
are reached over TLS with a password, and so they reach each other.
"""

from __future__ import annotations

import json
import re
import ssl
import urllib.error
import urllib.request
from base64 import b64encode
from pathlib import Path
from typing import Any, Final

import pytest

from tests.conformance.broker import MoldauBroker
from tests.conformance.broker import moldau as moldau
from tests.link.certificates import Authority, written
from tests.peers.eventually import eventually
from tests.streams.real.running import App

pytestmark = pytest.mark.real

_AT: Final = re.compile(r"queries at (https://\S+)")
WORDS: Final = [f"word-{number}" for number in range(40)]


def address(app: App, number: int) -> str:
    """Of the process that was started as this one in turn."""

    def found() -> bool:
        return len(_AT.findall(app.log.read_text())) > number

    eventually(found, within_s=60)
    return str(_AT.findall(app.log.read_text())[number])


class Visitor:
    """Asks with a password, and trusts the authority of the workers."""

    def __init__(self, folder: Path) -> None:
        authority = Authority()
        written(folder, "ca.pem", authority.certificate_pem)
        written(folder, "node.pem", authority.issue("localhost", "127.0.0.1").pem)
        (folder / "users").write_text("ann=s:cret\n")
        self.config = folder / "http.properties"
        self.config.write_text(
            f"ssl.keystore.location={folder}/node.pem\nssl.truststore.location={folder}/ca.pem\n"
            f"http.users.file={folder}/users\n"
        )
        self._context = ssl.create_default_context(cafile=str(folder / "ca.pem"))

    def get(self, url: str, login: str = "ann:s:cret") -> tuple[int, Any, Any]:
        header = "Basic " + b64encode(login.encode()).decode()
        asked = urllib.request.Request(url, headers={"Authorization": header})  # noqa: S310
        return answered(asked, self._context)


def answered(asked: urllib.request.Request, context: ssl.SSLContext) -> tuple[int, Any, Any]:
    """Status, body, headers."""
    try:
        with urllib.request.urlopen(asked, timeout=20, context=context) as answer:  # noqa: S310
            body = answer.read()
            status, headers = answer.status, answer.headers
    except urllib.error.HTTPError as error:
        body, status, headers = error.read(), error.code, error.headers
    return status, json.loads(body) if body.startswith(b"{") else body.decode(), headers


def test_each_key_is_found_at_either_process(moldau: MoldauBroker, tmp_path: Path) -> None:
    name = f"asked-{tmp_path.name}"
    app = App(moldau.bootstrap_servers, name, tmp_path, partitions=4).make()
    other = App(app.servers, name, tmp_path, partitions=4)
    other.state = tmp_path / "other"
    visitor = Visitor(tmp_path)
    get, protected = visitor.get, ("--http-config", str(visitor.config))
    first = app.start("--listen", "127.0.0.1:0", *protected)
    one = address(app, 0)
    app.write(" ".join(WORDS))
    app.read(lambda found: len(found) == len(WORDS))
    assert get(f"{one}/stores/counts/keys/word-7")[1]["value"] == 1
    assert get(f"{one}/stores/counts/keys/word-7", "ann:wrong")[0] == 401

    second = other.start("--listen", "127.0.0.1:0", *protected)
    two = address(app, 1)

    def is_shared() -> bool:
        status, body, headers = get(f"{two}/stores/counts/keys/word-7")
        if status != 200:  # a clear word while partitions move and stores are restored
            assert (status, body["again"], headers["Retry-After"]) == (503, True, "1")
            return False
        owners = {each["owner"] for each in get(f"{two}/stores")[1]["stores"][0]["partitions"]}
        return owners == {one.removeprefix("https://"), two.removeprefix("https://")}

    eventually(is_shared, within_s=60)
    app.write(" ".join(WORDS))
    app.read(lambda found: all(found.get(word) == 2 for word in WORDS))
    for server in (one, two):
        for word in WORDS:
            status, body, _ = get(f"{server}/stores/counts/keys/{word}")
            assert (status, body["value"]) == (200, 2), body
        status, body, _ = get(f"{server}/stores/counts")
        assert status == 200
        assert [row["key"] for row in body["rows"]] == sorted(WORDS)
        assert get(f"{server}/stores/counts/keys/nothing")[0] == 404

    eventually(lambda: has_metrics(visitor, one, two), within_s=30)
    app.stop(second)
    eventually(lambda: len(get(f"{one}/stores/counts")[1].get("rows", ())) == 40, within_s=60)
    app.stop(first)


def has_metrics(visitor: Visitor, *servers: str) -> bool:
    """Whether all records of all tasks show, and no lag."""
    lines = [
        line for server in servers for line in visitor.get(f"{server}/metrics")[1].splitlines()
    ]
    records = sum(
        float(line.rpartition(" ")[2])
        for line in lines
        if line.startswith('moldau_streams_process_records_total{task="1_')
    )
    lags = [line for line in lines if line.startswith("moldau_streams_records_lag{")]
    rows = [line for line in lines if line.startswith("moldau_streams_store_rows{")]
    return (
        records >= len(WORDS)
        and len(rows) == 4
        and len(lags) == 8
        and all(line.endswith("} 0") for line in lags)
    )
