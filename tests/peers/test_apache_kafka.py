"""How Kafka's jars are fetched, told with scripts that stand in for Java and Maven."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from tests.peers import apache_kafka
from tests.peers.apache_kafka import PeerMissing

_MAVEN_THAT_WORKS = """
PATH=/usr/bin:/bin
for argument in "$@"; do
    case $argument in -DoutputDirectory=*) libs=${argument#-DoutputDirectory=};; esac
    case $argument in */pom.xml) cp "$argument" "$0.pom";; esac
done
mkdir "$libs" && : >"$libs/kafka-clients-9.9.jar"
"""


class Machine:
    """A search path with only the programs that a test put there, and an empty cache."""

    def __init__(self, root: Path) -> None:
        self.bin = root / "bin"
        self.cache = root / "cache"
        self.bin.mkdir()

    def install(self, name: str, script: str = "") -> None:
        program = self.bin / name
        program.write_text(f"#!/bin/sh\n{script}", encoding="ascii")
        program.chmod(0o755)

    def install_jdk(self) -> None:
        self.install("java")
        self.install("javac")


@pytest.fixture
def machine(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Machine:
    made = Machine(tmp_path)
    monkeypatch.setenv("PATH", str(made.bin))
    monkeypatch.setenv("XDG_CACHE_HOME", str(made.cache))
    monkeypatch.delenv(apache_kafka.LIBS_VARIABLE, raising=False)
    return made


@pytest.mark.parametrize(
    ("installed", "why"),
    [
        ((), "java is not installed"),
        (("java",), "JDK"),
        (("java", "javac"), "mvn is not installed"),
    ],
)
def test_what_is_missing_is_named(machine: Machine, installed: tuple[str, ...], why: str) -> None:
    for name in installed:
        machine.install(name)
    with pytest.raises(PeerMissing, match=why):
        apache_kafka.fetch()


def test_jars_are_fetched_once_and_land_in_the_cache(machine: Machine) -> None:
    machine.install_jdk()
    machine.install("mvn", _MAVEN_THAT_WORKS)
    kafka = apache_kafka.fetch("9.9")
    assert kafka.libs == machine.cache / "moldau" / "apache-kafka" / "9.9" / "libs"
    assert [jar.name for jar in kafka.libs.iterdir()] == ["kafka-clients-9.9.jar"]
    assert [entry.name for entry in kafka.libs.parent.iterdir()] == ["libs"]

    machine.install("mvn", "exit 1")
    assert apache_kafka.fetch("9.9") == kafka


def test_the_driver_of_streams_lies_beside_the_other_jars(machine: Machine) -> None:
    machine.install_jdk()
    machine.install("mvn", _MAVEN_THAT_WORKS)

    kafka = apache_kafka.fetch_streams_driver("9.9")

    assert [folder.name for folder in kafka.more] == ["kafka-streams-test-utils"]
    assert kafka.class_path.split(":") == [f"{kafka.libs}/*", f"{kafka.more[0]}/*"]
    machine.install("mvn", "exit 1")
    assert apache_kafka.fetch_streams_driver("9.9") == kafka


def test_the_pom_asks_for_the_version_that_was_wanted(machine: Machine) -> None:
    machine.install_jdk()
    machine.install("mvn", _MAVEN_THAT_WORKS)
    apache_kafka.fetch("9.9")
    pom = (machine.bin / "mvn.pom").read_text(encoding="utf-8")
    assert "<artifactId>kafka_2.13</artifactId><version>9.9</version>" in pom
    assert "<artifactId>connect-runtime</artifactId><version>9.9</version>" in pom


def test_a_fetch_that_fails_says_why_and_leaves_nothing(machine: Machine) -> None:
    machine.install_jdk()
    machine.install("mvn", "echo '[ERROR] no way to the repository'; exit 1")
    with pytest.raises(PeerMissing, match="no way to the repository"):
        apache_kafka.fetch("9.9")
    assert list((machine.cache / "moldau" / "apache-kafka" / "9.9").iterdir()) == []


def test_a_named_folder_of_jars_is_used_as_it_is(
    machine: Machine, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    machine.install_jdk()
    monkeypatch.setenv(apache_kafka.LIBS_VARIABLE, str(tmp_path))
    with pytest.raises(PeerMissing, match="without Kafka's jars"):
        apache_kafka.fetch()
    (tmp_path / "kafka-clients-9.9.jar").touch()
    assert apache_kafka.fetch().libs == tmp_path


def test_where_the_peer_is_missing_a_test_is_skipped_with_the_reason(machine: Machine) -> None:
    with pytest.raises(pytest.skip.Exception, match="java is not installed"):
        apache_kafka.fetch_or_skip()


def test_answers_come_in_the_order_of_the_lines(machine: Machine, tmp_path: Path) -> None:
    machine.install("java", 'while read -r line; do echo "answer to $line"; done')
    kafka = apache_kafka.ApacheKafka("9.9", tmp_path, str(machine.bin / "java"))
    answers = kafka.run_source(tmp_path / "Any.java", ["one", "two"])
    assert answers == ["answer to one", "answer to two"]


def test_a_program_that_dies_is_an_error_that_shows_its_last_words(
    machine: Machine, tmp_path: Path
) -> None:
    machine.install("java", "read -r line; echo dying >&2; exit 3")
    kafka = apache_kafka.ApacheKafka("9.9", tmp_path, str(machine.bin / "java"))
    with pytest.raises(RuntimeError, match="ended with 3 after 0 of 1 answers: dying"):
        kafka.run_source(tmp_path / "Any.java", ["one"])


def test_classes_come_from_an_archive_once_one_was_made(machine: Machine, tmp_path: Path) -> None:
    machine.install_jdk()
    machine.install("mvn", _MAVEN_THAT_WORKS)
    kafka = apache_kafka.fetch("9.9")
    words = ["-Xmx9m", apache_kafka.FIRST_COMPILER]
    plain = [kafka.java, *words, "-cp", kafka.class_path]
    assert kafka.command(*words) == plain

    kafka.archive.parent.mkdir()
    kafka.archive.touch()
    options = [f"-XX:SharedArchiveFile={kafka.archive}", *apache_kafka.QUIET_ARCHIVE]
    assert kafka.command(*words) == [*plain[:3], *options, *plain[3:]]
    assert kafka.command("-Xmx9m") == [kafka.java, "-Xmx9m", "-cp", kafka.class_path]


def test_an_archive_belongs_to_one_java_and_one_folder_of_jars(
    machine: Machine, tmp_path: Path
) -> None:
    machine.install("java")
    kafka = apache_kafka.ApacheKafka("9.9", tmp_path, str(machine.bin / "java"))
    first = kafka.archive
    (machine.bin.parent / "release").write_text('JAVA_VERSION="18"')
    second = kafka.archive
    (tmp_path / "kafka-clients-9.9.jar").touch()
    os.utime(tmp_path, (1, 1))
    assert len({first, second, kafka.archive}) == 3
