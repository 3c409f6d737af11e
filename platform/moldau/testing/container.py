"""moldau in a container, for tests that need a broker from its image, with testcontainers' methods.

    with MoldauContainer() as moldau:
        producer = KafkaProducer(bootstrap_servers=moldau.get_bootstrap_server())

Needs testcontainers (`pip install testcontainers`) and a container engine; a missing one is
reported by the constructor or by `start`. Without an engine use `moldau.testing.SyncEmbeddedBroker`
or `Cluster`.

A broker tells its clients where to connect, but the engine chooses the port on the host only when
the container runs. So the container waits for a script, which is written into it as soon as the
port is known. It has two listeners: OUTSIDE for the host, and INSIDE for containers of the same
network, by the container's alias there.
"""

from __future__ import annotations

import io
import shlex
import tarfile
from types import TracebackType
from typing import Any, Final, Self

from moldau.errors import MoldauError
from moldau.runtime.node_processes import pause_s

IMAGE: Final = "moldau"
PORT: Final = 9092
INSIDE_PORT: Final = 19092
CONTROLLER_PORT: Final = 9093
METRICS_PORT: Final = 9404
DATA: Final = "/var/lib/moldau/data"
START_S: Final = 60.0
_SCRIPT: Final = "/tmp/moldau-start.sh"  # noqa: S108 (in the container)
_WAIT: Final = f"while [ ! -f {_SCRIPT} ]; do sleep 0.1; done; exec sh {_SCRIPT}"
_LOOK_S: Final = 0.2


class ContainerFailed(MoldauError):
    """No container can be started, or the broker in it does not come up."""


def broker_words(host: str, port: int, alias: str = "localhost", data: str = DATA) -> list[str]:
    """Return the command that runs in the container; clients on the host connect to `host:port`."""
    settings = {
        "listeners": f"INSIDE://0.0.0.0:{INSIDE_PORT},OUTSIDE://0.0.0.0:{PORT},"
        f"CONTROLLER://localhost:{CONTROLLER_PORT}",
        "advertised.listeners": f"INSIDE://{alias}:{INSIDE_PORT},OUTSIDE://{host}:{port}",
        "listener.security.protocol.map": "INSIDE:PLAINTEXT,OUTSIDE:PLAINTEXT,CONTROLLER:PLAINTEXT",
        "inter.broker.listener.name": "INSIDE",
        "controller.listener.names": "CONTROLLER",
    }
    words = ["moldau", "broker", "start", "--insecure", "--data", data]
    for name, value in settings.items():
        words += ["--set", f"{name}={value}"]
    return words


def health_words() -> list[str]:
    """Return a command that succeeds in the container once the broker accepts clients."""
    return ["curl", "-fsS", "-o", "/dev/null", f"http://localhost:{METRICS_PORT}/readyz"]


class MoldauContainer:
    """One broker in a container. Its methods have the names of testcontainers' own."""

    def __init__(self, image: str = IMAGE) -> None:
        try:
            from testcontainers.core.container import DockerContainer
        except ImportError:
            raise ContainerFailed(
                "testcontainers is not installed: pip install testcontainers, or use "
                "moldau.testing.SyncEmbeddedBroker, which needs no container"
            ) from None
        self._container: Any = DockerContainer(image)
        self._container.with_exposed_ports(PORT)
        self._container.with_kwargs(entrypoint=["sh", "-c", _WAIT])
        self._alias = "localhost"

    def with_env(self, name: str, value: str) -> Self:
        """Set an environment variable of the container; `MOLDAU_*` is a setting of the broker."""
        self._container.with_env(name, value)
        return self

    def with_network(self, network: Any) -> Self:
        """Join a network of testcontainers; give the container an alias there, too."""
        self._container.with_network(network)
        return self

    def with_network_aliases(self, *aliases: str) -> Self:
        """Name the container in its network; the broker advertises the first name."""
        self._alias = aliases[0]
        self._container.with_network_aliases(*aliases)
        return self

    def start(self) -> Self:
        """Start the container; the broker accepts clients when this returns. Raise ContainerFailed
        if the container cannot start or the broker does not come up."""
        try:
            self._container.start()
        except Exception as error:
            raise ContainerFailed(f"no container can be started: {error}") from error
        try:
            self._begin()
            self._await_health()
        except BaseException:
            self.stop()
            raise
        return self

    def _begin(self) -> None:
        """Write the script that the container waits for."""
        host = self._container.get_container_host_ip()
        port = int(self._container.get_exposed_port(PORT))
        words = broker_words(host, port, self._alias)
        script = f"exec {shlex.join(words)}\n".encode()
        packed = io.BytesIO()
        with tarfile.open(fileobj=packed, mode="w") as archive:
            entry = tarfile.TarInfo(_SCRIPT.rsplit("/", 1)[-1])
            entry.size, entry.mode = len(script), 0o644
            archive.addfile(entry, io.BytesIO(script))
        folder = _SCRIPT.rsplit("/", 1)[0]
        self._container.get_wrapped_container().put_archive(folder, packed.getvalue())

    def _await_health(self) -> None:
        for _ in range(int(START_S / _LOOK_S)):
            if self._container.exec(health_words()).exit_code == 0:
                return
            pause_s(_LOOK_S)
        out, err = self._container.get_logs()
        said = (out + err).decode("utf-8", "replace").strip().splitlines()
        raise ContainerFailed(
            f"the broker in the container did not come up in {START_S:.0f} s", said=said[-1:]
        )

    def stop(self) -> None:
        """End and remove the container with its data."""
        self._container.stop()

    def get_bootstrap_server(self) -> str:
        """Return the bootstrap address for clients on the host."""
        host = self._container.get_container_host_ip()
        return f"{host}:{self._container.get_exposed_port(PORT)}"

    def get_internal_bootstrap_server(self) -> str:
        """Return the bootstrap address for clients in other containers of the same network."""
        return f"{self._alias}:{INSIDE_PORT}"

    def get_wrapped_container(self) -> Any:
        """Return the container engine's own object, for everything else."""
        return self._container.get_wrapped_container()

    def __enter__(self) -> Self:
        return self.start()

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.stop()
