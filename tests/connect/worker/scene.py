"""A cluster of workers with a third party's connectors: numbers into a topic, lines into a file."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path

import pytest

from moldau.testing.threaded import SyncEmbeddedBroker
from tests.connect.processes import Worker, command
from tests.connect.third_party import install

TEXT = "org.apache.kafka.connect.storage.StringConverter"


@pytest.fixture
def environment(tmp_path: Path) -> Mapping[str, str]:
    packages = tmp_path / "packages"
    packages.mkdir()
    return install(packages)


class Scene:
    """One cluster of workers with names of its own."""

    def __init__(
        self, broker: SyncEmbeddedBroker, name: str, environment: Mapping[str, str]
    ) -> None:
        self.broker = broker
        self.name = name
        self.environment = environment
        self.sink = f"{name}-lines"
        """A connector whose group no other test has: a killed task stays in it for a session."""

    @contextmanager
    def worker(self, *more: str, **settings: str) -> Iterator[Worker]:
        given = {
            "group.id": self.name,
            "config.storage.topic": f"{self.name}-configs",
            "offset.storage.topic": f"{self.name}-offsets",
            "status.storage.topic": f"{self.name}-status",
            "offset.storage.partitions": "2",
            "offset.flush.interval.ms": "200",
            "errors.restart.backoff.ms": "100",
            "key.converter": TEXT,
            "value.converter": TEXT,
            "header.converter": TEXT,
            **{name.replace("_", "."): value for name, value in settings.items()},
        }
        words = [word for name, value in given.items() for word in ("--set", f"{name}={value}")]
        with command(
            "start", "--bootstrap", self.broker.bootstrap_servers, "--listen", "127.0.0.1:0",
            *more, *words, environment=self.environment,
        ) as worker:  # fmt: skip
            yield worker


@pytest.fixture
def scene(
    moldau_broker: SyncEmbeddedBroker, moldau_topic: str, environment: Mapping[str, str]
) -> Scene:
    return Scene(moldau_broker, moldau_topic, environment)


def numbers(topic: str, count: int, **more: str) -> dict[str, str]:
    return {
        "connector.class": "Numbers",
        "topic": topic,
        "count": str(count),
        **{name.replace("_", "."): value for name, value in more.items()},
    }


def lines(topic: str, file: Path, **more: str) -> dict[str, str]:
    return {
        "connector.class": "Lines",
        "topics": topic,
        "file": str(file),
        **{name.replace("_", "."): value for name, value in more.items()},
    }


def content(file: Path) -> list[str]:
    return file.read_text().splitlines() if file.exists() else []


def every(count: int) -> set[str]:
    return {f"0:{number}" for number in range(count)}


def is_alive(pid: int) -> bool:
    try:
        state = Path(f"/proc/{pid}/stat").read_text().rsplit(")", 1)[1].split()[0]
    except FileNotFoundError:
        return False
    return state != "Z"
