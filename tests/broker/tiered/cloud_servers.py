"""Stores of Google's and of Azure's kind on this machine: fake-gcs-server (built through Go's
proxy) and Azurite (of npm).

Both run as processes of their own, on a free port, for the tests of one worker, and keep objects in
memory. Requests to fake-gcs-server go through `google_door`.
"""

from __future__ import annotations

import base64
import hashlib
import hmac
import http.client
import json
import os
import shutil
import subprocess
import tempfile
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from email.utils import formatdate
from pathlib import Path
from typing import Final, NamedTuple

import pytest

from moldau.objects.object_store import ObjectStore, StoreLimits
from moldau.objects.obstore_bucket import ObstoreBucket
from moldau.objects.store_address import StoreConfig, parse_address
from moldau.runtime import Runtime
from tests.broker.tiered.google_door import google_door
from tests.broker.tiered.s3_servers import (
    BUCKET,
    ServerMissing,
    await_port,
    free_port,
    go_program,
    made_once,
)
from tests.broker.tiered.stores import QUICK

_FAKE_GCS: Final = "github.com/fsouza/fake-gcs-server@v1.56.1"
_AZURITE: Final = "azurite@3.35.0"
_IN_FOLDER: Final = "node_modules/.bin/azurite-blob"
_ACCOUNT: Final = "devstoreaccount1"
_KEY: Final = (
    "Eby8vdM02xNOcqFlqUwJPLlmEtlCDXJ1OUzFT50uSRZ6IFsuFq2UVErCz4I6tq/K1SZFPTOtr/KBHBeksoGMGw=="
)
"""Azurite's own, which all have."""
_NO_LOGIN: Final = json.dumps(
    {"disable_oauth": True, "client_email": "", "private_key": "", "private_key_id": ""}
)


class CloudServer(NamedTuple):
    """A running server with the bucket `BUCKET`."""

    scheme: str
    port: int
    path: str
    environment: Mapping[str, str]
    """Credentials that it accepts."""
    endpoint_variable: str

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.port}{self.path}"

    def use_credentials(self, patch: pytest.MonkeyPatch) -> None:
        """Put them into the environment, where every SDK finds them, and no others."""
        for name in [each for each in os.environ if each.startswith(("GOOGLE_", "AZURE_"))]:
            patch.delenv(name)
        for name, value in self.environment.items():
            patch.setenv(name, value)

    def address(self, prefix: str, bucket: str = BUCKET) -> str:
        return f"{self.scheme}://{bucket}/{prefix}"

    def settings(self, prefix: str) -> dict[str, str]:
        """Those of a broker with its segments here."""
        return {"remote_storage": self.address(prefix), "remote_storage_endpoint": self.url}

    def store(
        self, runtime: Runtime, prefix: str, *, bucket: str = BUCKET, limits: StoreLimits = QUICK
    ) -> ObjectStore:
        config = StoreConfig(parse_address(self.address(prefix, bucket)), self.url)
        return ObjectStore(runtime, ObstoreBucket(runtime, config), limits)


@contextmanager
def fake_google() -> Iterator[CloudServer]:
    """Run fake-gcs-server. Raise ServerMissing if there is none, and it cannot be built."""
    program, port = go_program(_FAKE_GCS), free_port()
    with tempfile.TemporaryDirectory(prefix="moldau-gs-") as folder:
        (Path(folder) / BUCKET).mkdir()
        options = ["-scheme", "http", "-host", "127.0.0.1", "-port", str(port)]
        options += ["-public-host", f"127.0.0.1:{port}", "-backend", "memory", "-data", folder]
        with _running([program, *options], port), google_door(port) as door:
            login = {"GOOGLE_SERVICE_ACCOUNT_KEY": _NO_LOGIN}
            yield CloudServer("gs", door, "", login, "GOOGLE_BASE_URL")


@contextmanager
def azurite() -> Iterator[CloudServer]:
    """Run Azurite. Raise ServerMissing if there is none, and npm does not get it."""
    port = free_port()
    options = ["--blobHost", "127.0.0.1", "--blobPort", str(port), "--inMemoryPersistence"]
    options += ["--silent", "--disableTelemetry", "--skipApiVersionCheck"]
    with _running([_azurite_program(), *options], port):
        _make_container(port)
        login = {"AZURE_STORAGE_ACCOUNT_NAME": _ACCOUNT, "AZURE_STORAGE_ACCOUNT_KEY": _KEY}
        yield CloudServer("az", port, f"/{_ACCOUNT}", login, "AZURE_STORAGE_ENDPOINT")


@contextmanager
def _running(command: list[str], port: int) -> Iterator[None]:
    quiet = subprocess.DEVNULL
    with subprocess.Popen(command, stdout=quiet, stderr=quiet) as process:  # noqa: S603
        try:
            await_port(process, port)
            yield
        finally:
            process.kill()


def _azurite_program() -> str:
    found, npm = shutil.which("azurite-blob"), shutil.which("npm")

    def build(made: Path) -> list[str]:
        if npm is None or shutil.which("node") is None:
            raise ServerMissing("Azurite is not installed, and there is no npm to get it")
        return [npm, "install", "--no-audit", "--no-fund", "--prefix", str(made), _AZURITE]

    return found or str(made_once(_AZURITE.replace("@", "-"), build) / _IN_FOLDER)


def _make_container(port: int) -> None:
    """Make the bucket, by a request that is signed with the account's key."""
    path = f"/{_ACCOUNT}/{BUCKET}"
    of_request = {"x-ms-date": formatdate(usegmt=True), "x-ms-version": "2021-12-02"}
    named = "".join(f"{name}:{value}\n" for name, value in of_request.items())
    text = "PUT\n" + "\n" * 11 + f"{named}/{_ACCOUNT}{path}\nrestype:container"
    signed = hmac.new(base64.b64decode(_KEY), text.encode(), hashlib.sha256).digest()
    login = {"authorization": f"SharedKey {_ACCOUNT}:{base64.b64encode(signed).decode()}"}
    connection = http.client.HTTPConnection("127.0.0.1", port)
    connection.request("PUT", f"{path}?restype=container", headers={**of_request, **login})
    assert connection.getresponse().status == 201
    connection.close()
