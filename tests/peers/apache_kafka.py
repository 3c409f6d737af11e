"""Apache Kafka itself, as Maven publishes it: the peer that ours is held against.

`fetch()` brings the jars of one version into the user's cache, once, and says how to run Java on
them. It raises `PeerMissing` with the reason where that cannot be had (no Java, no Maven, no way
to a Maven repository); `fetch_or_skip()` turns that into a skipped test.

Invariant: a folder of jars in the cache is complete. Maven fills a temporary folder beside it,
and one rename publishes it, so that a fetch that was cut short, or two at once, leave nothing
half done.

`MOLDAU_KAFKA_LIBS` names a folder of jars to use as it is, for machines that get them otherwise.
"""

from __future__ import annotations

import hashlib
import os
import shutil
import subprocess
import tempfile
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Final
from xml.sax.saxutils import escape

import pytest

from tests.suites import may_use_java

VERSION: Final = "4.4.0"
OLDER: Final = "4.3.1"
WITH_CONNECTORS: Final = OLDER
"""The newest with connectors for files and the mirror: those of 4.4.0 are not published, and those
of 4.3.1 call classes that moved."""
LIBS_VARIABLE: Final = "MOLDAU_KAFKA_LIBS"
FETCH_TIMEOUT_S: Final = 900
QUIET_ARCHIVE: Final = ("-Xlog:cds=off", "-Xlog:cds+dynamic=off")
"""A Java that cannot use an archive says nothing of it, and runs without."""
FIRST_COMPILER: Final = "-XX:TieredStopAtLevel=1"
SHORT_JVM: Final = ("-XX:+UseSerialGC", FIRST_COMPILER)
"""A program that ends soon spends more on the second compiler than that saves: to compile a source
file takes half of the CPU without it."""

_LOG4J_VERSION: Final = "2.25.4"
# What each brings (Maven resolves what they need in turn).
_ARTIFACTS: Final = (
    "org.apache.kafka:kafka_2.13",  # broker and controller, ConfigCommand, StorageTool
    "org.apache.kafka:kafka-tools",  # the other command line tools
    "org.apache.kafka:kafka-streams",
    "org.apache.kafka:connect-runtime",
    "org.apache.kafka:connect-json",
    "org.apache.kafka:connect-transforms",
    "org.apache.logging.log4j:log4j-api",
    "org.apache.logging.log4j:log4j-core",
    "org.apache.logging.log4j:log4j-slf4j-impl",
)
_CONNECTORS: Final = ("org.apache.kafka:connect-file", "org.apache.kafka:connect-mirror")


class PeerMissing(Exception):
    """This machine cannot run the peer; the text says why."""


@dataclass(frozen=True, slots=True)
class ApacheKafka:
    """A complete set of Kafka's jars and the Java to run them."""

    version: str
    libs: Path
    java: str
    # Folders of jars beside those of `libs`.
    more: tuple[Path, ...] = ()

    @property
    def class_path(self) -> str:
        return os.pathsep.join(f"{folder}{os.sep}*" for folder in (self.libs, *self.more))

    @property
    def archive(self) -> Path:
        """Where the archive of the classes is kept (tests/peers/class_archive.py), under a name
        of its own for each Java and each folder of jars."""
        home = Path(self.java).resolve().parent.parent
        release = home / "release"
        version = release.read_bytes() if release.exists() else b""
        fetched = self.libs.stat().st_mtime_ns if self.libs.exists() else 0
        key = hashlib.sha256(version + f"{home} {self.libs} {fetched}".encode()).hexdigest()
        return cache_folder() / "classes" / f"{self.version}-{key[:16]}.jsa"

    def command(self, *options: str) -> list[str]:
        """Return the beginning of a command that runs a class of the jars, or a source file: Java,
        its options and the class path. A short program uses the archive of classes if there is one;
        what is measured runs as Kafka's own scripts run it."""
        used: list[str] = []
        if FIRST_COMPILER in options and self.archive.exists():
            used = [f"-XX:SharedArchiveFile={self.archive}", *QUIET_ARCHIVE]
        return [self.java, *options, *used, "-cp", self.class_path]

    def run_source(
        self, source: Path, lines: Sequence[str], *, timeout_s: float = 300, heap: str = "256m"
    ) -> list[str]:
        """Run one Java source file on Kafka's class path; one answer line for each input line."""
        command = [*self.command(f"-Xmx{heap}", *SHORT_JVM), str(source)]
        done = subprocess.run(  # noqa: S603 - our own file, run by the java that was found
            command,
            input="".join(f"{line}\n" for line in lines),
            capture_output=True,
            encoding="utf-8",
            timeout=timeout_s,
            check=False,
        )
        answers = done.stdout.splitlines()
        if done.returncode != 0 or len(answers) != len(lines):
            raise RuntimeError(
                f"{source.name} ended with {done.returncode} after {len(answers)} of "
                f"{len(lines)} answers: {done.stderr[-2000:]}"
            )
        return answers


def fetch(version: str = VERSION) -> ApacheKafka:
    """Kafka's jars, from the cache or through Maven. Raises PeerMissing."""
    java = _program("java")
    if shutil.which("javac") is None:
        raise PeerMissing("java is here without its compiler (a JRE); a JDK is needed")
    named = os.environ.get(LIBS_VARIABLE)
    if named:
        libs = Path(named)
        if not any(libs.glob("kafka-clients-*.jar")):
            raise PeerMissing(f"{LIBS_VARIABLE} names a folder without Kafka's jars: {named}")
        return ApacheKafka(version, libs, java)
    libs = cache_folder() / version / "libs"
    if not libs.is_dir():
        connectors = _CONNECTORS if version == WITH_CONNECTORS else ()
        fetch_jars(libs, _of_kafka(version, (*_ARTIFACTS, *connectors)))
    return ApacheKafka(version, libs, java)


def fetch_streams_driver(version: str = VERSION) -> ApacheKafka:
    """Kafka's jars and the test driver of its Streams beside them. Raises PeerMissing."""
    kafka = fetch(version)
    name = "kafka-streams-test-utils"
    if any(kafka.libs.glob(f"{name}-*.jar")):
        return kafka
    folder = cache_folder() / version / name
    if not folder.is_dir():
        wanted = _of_kafka(version, (f"org.apache.kafka:{name}",))
        fetch_jars(folder, wanted, ["-DexcludeTransitive=true"])
    return replace(kafka, more=(folder,))


def fetch_or_skip(version: str = VERSION) -> ApacheKafka:
    """As `fetch`; a test that calls it is skipped with the reason where the peer is missing."""
    try:
        found = fetch(version)
    except PeerMissing as missing:
        pytest.skip(f"Apache Kafka {version} cannot be had here: {missing}")
    may_use_java()
    return found


def _program(name: str) -> str:
    found = shutil.which(name)
    if found is None:
        raise PeerMissing(f"{name} is not installed")
    return found


def cache_folder() -> Path:
    root = os.environ.get("XDG_CACHE_HOME")
    return (Path(root) if root else Path.home() / ".cache") / "moldau" / "apache-kafka"


def _of_kafka(version: str, artifacts: Sequence[str]) -> list[str]:
    """What Maven is asked for: `group:name:version`."""
    versions = (
        _LOG4J_VERSION if each.startswith("org.apache.logging.log4j:") else version
        for each in artifacts
    )
    return [f"{each}:{its}" for each, its in zip(artifacts, versions, strict=True)]


def fetch_jars(libs: Path, artifacts: Sequence[str], options: Sequence[str] = ()) -> None:
    """Bring these artifacts (`group:name:version`) and what they need into a folder that is not
    there yet. Raises PeerMissing."""
    maven = _program("mvn")
    libs.parent.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(dir=libs.parent, prefix="fetch-") as scratch:
        pom = Path(scratch) / "pom.xml"
        pom.write_text(_pom(artifacts), encoding="utf-8")
        arriving = Path(scratch) / "libs"
        command = [maven, "-q", "-B", "-f", str(pom), "dependency:copy-dependencies", *options]
        _run_maven(command, arriving)
        _publish(arriving, libs)


def _run_maven(command: list[str], arriving: Path) -> None:
    try:
        done = subprocess.run(  # noqa: S603 - fixed arguments, run by the mvn that was found
            [*command, "-DincludeScope=runtime", f"-DoutputDirectory={arriving}"],
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            timeout=FETCH_TIMEOUT_S,
            check=False,
        )
    except subprocess.TimeoutExpired as late:
        raise PeerMissing(f"Maven did not bring the jars in {FETCH_TIMEOUT_S} s") from late
    if done.returncode != 0:
        complaint = (done.stdout + done.stderr).strip().splitlines()
        raise PeerMissing(f"Maven failed: {complaint[0] if complaint else 'without a word'}")


def _publish(arriving: Path, libs: Path) -> None:
    try:
        arriving.rename(libs)
    except OSError:
        if not libs.is_dir():  # else another fetch was first, and its jars are as good
            raise


def _pom(artifacts: Sequence[str]) -> str:
    dependencies = []
    for artifact in artifacts:
        group, name, version = artifact.split(":")
        dependencies.append(
            f"<dependency><groupId>{group}</groupId><artifactId>{name}</artifactId>"
            f"<version>{escape(version)}</version></dependency>"
        )
    return (
        '<project xmlns="http://maven.apache.org/POM/4.0.0"><modelVersion>4.0.0</modelVersion>'
        "<groupId>moldau</groupId><artifactId>apache-kafka-peer</artifactId><version>1</version>"
        f"<packaging>pom</packaging><dependencies>{''.join(dependencies)}</dependencies></project>\n"
    )
