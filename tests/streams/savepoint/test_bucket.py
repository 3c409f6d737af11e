"""Savepoints in a real S3 server."""

from __future__ import annotations

from collections.abc import Iterator
from uuid import uuid4

import pytest

from moldau.client import ConfigError
from moldau.objects.store_errors import StoreError
from moldau.runtime.real_files import RealFiles
from moldau.streams import Streams
from moldau.streams.plan.upgrade import kept_topology
from moldau.streams.savepoint.bucket import PART_BYTES
from moldau.streams.savepoint.place import SavepointPlace, place_of
from moldau.streams.savepoint.savepoint import SavedOffset, Savepoint, load, save
from tests.broker.tiered import s3_servers
from tests.broker.tiered.s3_servers import BUCKET, REGION, S3Server, running, use_key

pytest.importorskip("obstore", reason="the extra `tiered` is not installed")


@pytest.fixture(scope="module")
def server() -> Iterator[S3Server]:
    with running(s3_servers.moto) as found:
        yield found


@pytest.fixture
def place(server: S3Server, monkeypatch: pytest.MonkeyPatch) -> SavepointPlace:
    use_key(monkeypatch)
    monkeypatch.setenv("AWS_ENDPOINT_URL", server.url)
    monkeypatch.setenv("AWS_REGION", REGION)
    monkeypatch.setenv("AWS_ALLOW_HTTP", "true")
    return place_of(f"s3://{BUCKET}/{uuid4().hex}", RealFiles())


@pytest.mark.real
def test_what_was_written_to_a_bucket_is_read_again(place: SavepointPlace) -> None:
    assert place.names() == []
    large = bytes(range(256)) * (PART_BYTES // 128)
    for name, data in {"small.log": b"records", "large.log": large, "empty.log": b""}.items():
        place.write(name, data)
        assert place.read(name) == data
    assert place.names() == ["empty.log", "large.log", "small.log"]


@pytest.mark.real
def test_a_savepoint_in_a_bucket_is_loaded(place: SavepointPlace) -> None:
    app = Streams("saved")
    app.stream("lines", str, key=str).group_by_key().count(name="counts")
    offsets = {("lines", 0): SavedOffset(3, "text")}
    topology = kept_topology(app.plan())
    found = Savepoint("saved", 7, topology, {"lines": 1}, offsets, {}, {}, ())
    save(place, found)
    assert load(place) == found


@pytest.mark.real
def test_a_bucket_that_is_not_there_is_told(place: SavepointPlace) -> None:
    with pytest.raises(StoreError, match="no-such-bucket"):
        place_of("s3://no-such-bucket/here", RealFiles()).write("a", b"a")


@pytest.mark.parametrize("address", ["ftp://host/dir", "s3:///prefix"])
def test_an_address_that_is_none_is_refused(address: str) -> None:
    with pytest.raises(ConfigError, match="the place of the savepoint"):
        place_of(address, RealFiles())
