"""What docker/ says, without a container engine: the same commands, variables and health checks.

Containers have a network each, and names for each other; here all have this machine. So every
`name:port`, and every `0.0.0.0:port` and `localhost:port` of a service, becomes a free port of
loopback, and the volume a folder. Nothing else is changed.
"""

from __future__ import annotations

import os
import re
import shlex
import signal
import subprocess
import sys
import time
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest
import yaml

from moldau.runtime.node_processes import free_ports

pytestmark = pytest.mark.real

DOCKER = Path(__file__).parents[2] / "docker"
VOLUME = "/var/lib/moldau"
BIN = Path(sys.executable).parent
OWN = ("0.0.0.0", "localhost", "127.0.0.1")  # noqa: S104 - a name in the files
PATIENCE_S = 90.0


@dataclass(frozen=True)
class Image:
    """The last stage of the Dockerfile."""

    user: str
    volume: str
    exposed: tuple[int, ...]
    entrypoint: tuple[str, ...]
    command: tuple[str, ...]
    health: tuple[str, ...]
    variables: dict[str, str]
    lines: tuple[str, ...]


def image() -> Image:
    text = (DOCKER / "Dockerfile").read_text().replace("\\\n", " ")
    lines = [line.strip() for line in text.splitlines() if line and not line.startswith("#")]
    last = max(at for at, line in enumerate(lines) if line.startswith("FROM "))
    found = dict(line.partition(" ")[::2] for line in lines[last:])

    def words(text: str) -> tuple[str, ...]:
        return tuple(yaml.safe_load(text))

    return Image(
        found["USER"],
        found["VOLUME"],
        tuple(map(int, found["EXPOSE"].split())),
        words(found["ENTRYPOINT"]),
        words(found["CMD"]),
        words(found["HEALTHCHECK"].partition("CMD ")[2]),
        dict(
            line.removeprefix("ENV ").split("=", 1)
            for line in lines[last:]
            if line.startswith("ENV ") and not line.startswith("ENV PATH=")
        ),
        tuple(lines),
    )


def compose(name: str) -> dict[str, Any]:
    """A compose file."""
    found: dict[str, Any] = yaml.safe_load((DOCKER / name).read_text())
    return found


def compose_files() -> list[str]:
    return sorted(each.name for each in DOCKER.glob("compose*.yaml"))


@dataclass
class Machine:
    """This machine in the place of the containers' network."""

    folder: Path
    services: Sequence[str]
    ports: dict[tuple[str, int], int] = field(default_factory=dict)

    def port(self, service: str, port: int) -> int:
        """Of that service's port."""
        key = (service, port)
        if key not in self.ports:
            self.ports[key] = free_ports(1)[0]
        return self.ports[key]

    def here(self, service: str, text: str) -> str:
        """The same for this machine."""

        def place(found: re.Match[str]) -> str:
            name, port = found.group(1), int(found.group(2))
            owner = service if name in OWN else name
            return f"127.0.0.1:{self.port(owner, port)}"

        names = "|".join(map(re.escape, (*OWN, *self.services)))
        text = re.sub(rf"(?<![\w.-])({names}):(\d+)", place, text)
        return text.replace(VOLUME, str(self.folder / service))


@dataclass
class Service:
    """A container's process."""

    name: str
    process: subprocess.Popen[bytes]
    log: Path

    def stop(self) -> int:
        """As an engine stops it: SIGTERM; its exit code."""
        (code,) = stop_all([self])
        return code


def stop_all(running: Iterable[Service]) -> list[int]:
    """SIGTERM for all of them; their exit codes."""
    services = list(running)
    for each in services:
        each.process.send_signal(signal.SIGTERM)
    return [each.process.wait(timeout=60) for each in services]


def environment(more: Mapping[str, str]) -> dict[str, str]:
    """The image's: nothing of ours but the place of the commands."""
    return {"PATH": f"{BIN}:/usr/bin:/bin", "HOME": os.environ.get("HOME", "/"), **more}


@contextmanager
def service(
    machine: Machine,
    name: str,
    command: Sequence[str],
    variables: Mapping[str, str],
    *,
    entrypoint: Sequence[str] | None = None,
    read_only: bool = False,
) -> Iterator[Service]:
    """A service of the image, until the block ends; `entrypoint` replaces the image's. With
    `read_only` it can write to its volume only, where this machine allows own file systems."""
    (machine.folder / name).mkdir(exist_ok=True)
    log = machine.folder / f"{name}.log"
    begin = image().entrypoint if entrypoint is None else entrypoint
    words = [machine.here(name, each) for each in (*begin, *command)]
    given = {
        key: machine.here(name, value) for key, value in {**image().variables, **variables}.items()
    }
    with log.open("wb") as sink:
        process = subprocess.Popen(  # noqa: S603 - what docker/ names
            words,
            stdin=subprocess.DEVNULL,
            stdout=sink,
            stderr=subprocess.STDOUT,
            cwd=machine.folder / name,
            env=environment(given),
        )
    try:
        yield Service(name, process, log)
    finally:
        process.kill()
        process.wait()


def await_health(
    machine: Machine, running: Service, words: Sequence[str], more: Mapping[str, str]
) -> None:
    """The health check succeeds in time."""
    check = [machine.here(running.name, each) for each in words]
    until = time.monotonic() + PATIENCE_S
    while True:
        done = subprocess.run(  # noqa: S603 - what docker/ names
            check, capture_output=True, text=True, env=environment(more), check=False, timeout=60
        )
        if done.returncode == 0:
            return
        said = running.log.read_text(errors="replace")
        assert running.process.poll() is None, f"{running.name} ended:\n{said}"
        assert time.monotonic() < until, f"{shlex.join(check)}: {done.stderr}\n{said}"
        time.sleep(0.2)


@contextmanager
def composed(
    name: str, folder: Path, given: Mapping[str, Mapping[str, str]]
) -> Iterator[tuple[Machine, dict[str, Service]]]:
    """All services of our image in a compose file, each healthy before those that depend on it.
    `given` has the variables with which health checks of other images reach what runs instead."""
    services: dict[str, Any] = compose(name)["services"]
    machine = Machine(folder, tuple(services))
    with ExitStack() as stack:
        running: dict[str, Service] = {}
        ours = [each for each, spec in services.items() if spec["image"] == "moldau"]
        for each in sorted(ours, key=lambda each: len(services[each].get("depends_on", {}))):
            spec = services[each]
            for needed in spec.get("depends_on", {}):
                check = services[needed]["healthcheck"]["test"][1:]
                if needed in running:
                    await_health(machine, running[needed], check, {})
                else:
                    subprocess.run(  # noqa: S603 - what docker/ names
                        check, check=True, env=environment(given[needed]), timeout=60
                    )
            running[each] = stack.enter_context(
                service(machine, each, spec["command"], spec.get("environment", {}))
            )
        for each, started in running.items():
            await_health(machine, started, services[each]["healthcheck"]["test"][1:], {})
        yield machine, running
