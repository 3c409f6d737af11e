"""The S3 servers of these tests: one of each for a worker."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, ExitStack, contextmanager

import pytest

from tests.broker.tiered import s3_servers
from tests.broker.tiered.s3_servers import S3Server, ServerMissing


@pytest.fixture(scope="session")
def moto() -> Iterator[S3Server]:
    with running(s3_servers.moto) as server:
        yield server


@pytest.fixture(scope="session")
def versitygw() -> Iterator[S3Server]:
    with running(s3_servers.versitygw) as server:
        yield server


@contextmanager
def running(start: Callable[[], AbstractContextManager[S3Server]]) -> Iterator[S3Server]:
    """Run a server, or skip the tests that need it."""
    with ExitStack() as stack:
        try:
            server = stack.enter_context(start())
        except ServerMissing as missing:
            pytest.skip(str(missing))
        yield server


@pytest.fixture
def key(monkeypatch: pytest.MonkeyPatch) -> None:
    """Credentials that the servers accept."""
    s3_servers.use_key(monkeypatch)
