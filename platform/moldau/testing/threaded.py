"""A broker on an event loop in a thread of its own, for tests that have no event loop."""

from __future__ import annotations

from collections.abc import Mapping
from contextlib import ExitStack
from typing import TYPE_CHECKING, Self

from moldau.testing.embedded import (
    EmbeddedBroker,
    not_running,
    running_already,
    setting_texts,
)

if TYPE_CHECKING:
    from moldau.runtime.threaded import ThreadedRuntime


class SyncEmbeddedBroker:
    """`with SyncEmbeddedBroker() as broker`, or `start()` and `stop()`: `EmbeddedBroker` for code
    that does not await. Any thread may use it, one at a time."""

    def __init__(
        self,
        settings: Mapping[str, object] | None = None,
        *,
        directory: str | None = None,
        port: int = 0,
    ) -> None:
        self._settings = setting_texts(settings or {})
        self._directory = directory
        self._port = port
        self._threaded: ThreadedRuntime | None = None
        self._broker: EmbeddedBroker | None = None

    @property
    def bootstrap_servers(self) -> str:
        """The bootstrap address for a client, as `host:port`."""
        return self._running().bootstrap_servers

    @property
    def host(self) -> str:
        """The host that the broker listens on."""
        return self._running().host

    @property
    def port(self) -> int:
        """The port that the broker listens on."""
        return self._running().port

    @property
    def directory(self) -> str:
        """The directory with the broker's files."""
        return self._running().directory

    @property
    def is_running(self) -> bool:
        return self._broker is not None

    def _running(self) -> EmbeddedBroker:
        if self._broker is None:
            raise not_running("a `with` block, or call start()")
        return self._broker

    def start(self) -> Self:
        """Start the broker; it accepts clients when this returns."""
        from moldau.runtime.threaded import ThreadedRuntime

        if self._broker is not None:
            raise running_already()
        threaded = ThreadedRuntime("embedded-broker")
        broker = EmbeddedBroker(self._settings, directory=self._directory, port=self._port)
        with ExitStack() as on_failure:
            on_failure.enter_context(threaded)
            threaded.run(lambda runtime: broker.start())
            on_failure.pop_all()
        self._broker, self._threaded = broker, threaded
        self._port = broker.port
        return self

    def stop(self) -> None:
        """Stop the broker cleanly and remove temporary files. Do nothing if it does not run."""
        broker, self._broker = self._broker, None
        threaded, self._threaded = self._threaded, None
        if broker is None or threaded is None:
            return
        try:
            threaded.run(lambda runtime: broker.stop())
        finally:
            threaded.close()

    def restart(self) -> None:
        """Stop cleanly, then start with the same files on the same port. If that fails, the broker
        is stopped and temporary files are removed."""
        broker, threaded = self._running(), self._threaded
        assert threaded is not None
        with ExitStack() as on_failure:
            on_failure.callback(self.stop)
            threaded.run(lambda runtime: broker.restart())
            on_failure.pop_all()

    def __enter__(self) -> Self:
        return self.start()

    def __exit__(self, *_: object) -> None:
        self.stop()
