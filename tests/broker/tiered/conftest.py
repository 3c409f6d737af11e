"""The object stores of these tests: one of each for a worker."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from tests.broker.tiered import cloud_servers, s3_servers
from tests.broker.tiered.cloud_servers import CloudServer
from tests.broker.tiered.s3_servers import S3Server, running


@pytest.fixture(scope="session")
def moto() -> Iterator[S3Server]:
    with running(s3_servers.moto) as server:
        yield server


@pytest.fixture(scope="session")
def versitygw() -> Iterator[S3Server]:
    with running(s3_servers.versitygw) as server:
        yield server


@pytest.fixture(scope="session")
def fake_google() -> Iterator[CloudServer]:
    with running(cloud_servers.fake_google) as server:
        yield server


@pytest.fixture(scope="session")
def azurite() -> Iterator[CloudServer]:
    with running(cloud_servers.azurite) as server:
        yield server


@pytest.fixture(params=["fake_google", "azurite"])
def cloud(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> CloudServer:
    """A server of Google's kind, then one of Azure's, with its credentials in the environment."""
    server: CloudServer = request.getfixturevalue(request.param)
    server.use_credentials(monkeypatch)
    return server


@pytest.fixture
def key(monkeypatch: pytest.MonkeyPatch) -> None:
    """Credentials that the servers accept."""
    s3_servers.use_key(monkeypatch)
