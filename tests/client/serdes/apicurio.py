"""A real Schema Registry: Apicurio's, as Maven publishes it, which keeps its schemas in a Kafka.

    with Apicurio.started(fetch_or_skip(), folder, bootstrap_servers) as registry:
        registry.url                        # Confluent's API

It is skipped with the reason where Java, Maven or a way to a Maven repository is missing. What was
fetched stays in the user's cache; a folder that is there is complete.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import tarfile
import tempfile
import time
import urllib.request
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Final

import pytest

from moldau.runtime.node_processes import free_ports
from moldau.testing import SyncEmbeddedBroker
from tests.peers.apache_kafka import PeerMissing
from tests.peers.kafka_broker import HOST, SMALL_JVM

VERSION: Final = "3.0.9"  # the last one that runs on Java 17
_ARTIFACT: Final = f"io.apicurio:apicurio-registry-app:{VERSION}:tar.gz:all"
_RUNNER: Final = f"apicurio-registry-app-{VERSION}-runner.jar"
_FETCH_TIMEOUT_S: Final = 900
_START_TIMEOUT_S: Final = 180.0
_STOP_TIMEOUT_S: Final = 30.0
_POLL_S: Final = 0.2


class RegistryFailed(Exception):
    """It did not come up; the text ends with its last words."""


def fetch() -> Path:
    """The folder of the program, from the cache or through Maven. Raises PeerMissing."""
    for program in ("java", "mvn"):
        if shutil.which(program) is None:
            raise PeerMissing(f"{program} is not installed")
    root = os.environ.get("XDG_CACHE_HOME")
    folder = (Path(root) if root else Path.home() / ".cache") / "moldau" / "apicurio" / VERSION
    if folder.is_dir():
        return folder
    folder.parent.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(dir=folder.parent, prefix="fetch-") as scratch:
        archive = _download(Path(scratch))
        arriving = Path(scratch) / "program"
        with tarfile.open(archive) as packed:
            packed.extractall(arriving, filter="data")
        with suppress(OSError):  # another fetch was first, and its files are as good
            arriving.rename(folder)
    return folder


def _download(scratch: Path) -> Path:
    mvn = shutil.which("mvn")
    assert mvn is not None
    # Later versions of it also want the descriptor of a parent, which not every mirror has.
    goal = "org.apache.maven.plugins:maven-dependency-plugin:2.10:copy"
    command = [mvn, "-q", "-B", goal, f"-Dartifact={_ARTIFACT}", f"-DoutputDirectory={scratch}"]
    try:
        done = subprocess.run(  # noqa: S603 - fixed arguments, run by the mvn that was found
            command,
            cwd=scratch,
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            timeout=_FETCH_TIMEOUT_S,
            check=False,
        )
    except subprocess.TimeoutExpired as late:
        raise PeerMissing(f"Maven did not bring it in {_FETCH_TIMEOUT_S} s") from late
    found = list(scratch.glob("*.tar.gz"))
    if done.returncode != 0 or not found:
        complaint = (done.stdout + done.stderr).strip().splitlines()
        raise PeerMissing(f"Maven failed: {complaint[0] if complaint else 'without a word'}")
    return found[0]


def fetch_or_skip() -> Path:
    """As `fetch`; skips the test with the reason."""
    try:
        return fetch()
    except PeerMissing as missing:
        pytest.skip(f"the registry {VERSION} cannot be had here: {missing}")


class Apicurio:
    """One process of the registry; all it knows is in the Kafka."""

    def __init__(self, program: Path, folder: Path, bootstrap_servers: str) -> None:
        self._program = program
        self._log = folder / "registry.log"
        self._bootstrap_servers = bootstrap_servers
        (self._port,) = free_ports(1)
        self._process: subprocess.Popen[bytes] | None = None

    @classmethod
    @contextmanager
    def started(cls, program: Path, folder: Path, bootstrap_servers: str) -> Iterator[Apicurio]:
        """A registry that is up; stopped at the end."""
        registry = cls(program, folder, bootstrap_servers)
        try:
            registry.start()
            yield registry
        finally:
            registry.stop()

    @property
    def url(self) -> str:
        """Confluent's API, version 7."""
        return f"http://{HOST}:{self._port}/apis/ccompat/v7"

    def start(self) -> None:
        """Returns when it answers."""
        java = shutil.which("java")
        assert java is not None
        command = [
            java,
            "-Xmx384m",
            *SMALL_JVM,
            f"-Dquarkus.http.host={HOST}",
            f"-Dquarkus.http.port={self._port}",
            "-Dapicurio.storage.kind=kafkasql",
            f"-Dapicurio.kafkasql.bootstrap.servers={self._bootstrap_servers}",
            "-jar",
            _RUNNER,
        ]
        with self._log.open("ab") as log:
            self._process = subprocess.Popen(  # noqa: S603 - by the java that was found
                command, cwd=self._program, stdin=subprocess.DEVNULL, stdout=log, stderr=log
            )
        deadline = time.monotonic() + _START_TIMEOUT_S
        while not self._answers():
            if self._process.poll() is not None or time.monotonic() > deadline:
                words = self._log.read_text(encoding="utf-8", errors="replace")[-3000:]
                raise RegistryFailed(f"the registry is not up: {words}")
            with suppress(subprocess.TimeoutExpired):
                self._process.wait(_POLL_S)

    def _answers(self) -> bool:
        try:
            with urllib.request.urlopen(f"{self.url}/subjects", timeout=5) as answer:  # noqa: S310
                return bool(answer.status == 200)
        except OSError:
            return False

    def stop(self) -> None:
        """Ends it; killed if it takes too long. Fine when it does not run."""
        process, self._process = self._process, None
        if process is None:
            return
        process.terminate()
        try:
            process.wait(_STOP_TIMEOUT_S)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()


@pytest.fixture(scope="session")
def schema_registry(
    moldau_broker: SyncEmbeddedBroker, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Apicurio]:
    """One registry for all tests of this process, in moldau's own broker."""
    folder = tmp_path_factory.mktemp("registry")
    with Apicurio.started(fetch_or_skip(), folder, moldau_broker.bootstrap_servers) as registry:
        yield registry
