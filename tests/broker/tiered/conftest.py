"""The S3 servers of these tests: one of each for a worker."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from tests.broker.tiered import s3_servers
from tests.broker.tiered.s3_servers import S3Server


@pytest.fixture(scope="session")
def moto() -> Iterator[S3Server]:
    with s3_servers.moto() as server:
        yield server


@pytest.fixture(scope="session")
def versitygw() -> Iterator[S3Server]:
    with s3_servers.versitygw() as server:
        yield server


@pytest.fixture
def key(monkeypatch: pytest.MonkeyPatch) -> None:
    """Credentials that the servers accept."""
    s3_servers.use_key(monkeypatch)
