"""A connector that fails to start is stopped in order afterwards."""

from __future__ import annotations

from collections.abc import Mapping
from unittest.mock import Mock

import pytest

from moldau.connect.api import ConnectError, SourceConnector
from moldau.connect.worker.worker import Worker
from moldau.logging import Loggers
from moldau.runtime import Runtime
from moldau.runtime.real import run

stopped: list[str] = []


class Failing(SourceConnector):
    def start(self, props: Mapping[str, str]) -> None:
        super().start(props)
        raise ConnectError("the address is wrong")

    def stop(self) -> None:
        stopped.append(self.props["name"])


def test_a_connector_whose_start_failed_stops_without_a_warning(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    lines: list[str] = []
    monkeypatch.setattr("moldau.connect.worker.worker.connector_class", lambda config: Failing)

    async def main(runtime: Runtime) -> None:
        worker = Worker(runtime, {}, Loggers(runtime.clock, lines.append), Mock())
        with pytest.raises(ConnectError, match="the address is wrong"):
            await worker.start_connector("orders", {"name": "orders"})
        await worker.stop_connector("orders")

    run(main)

    assert (stopped, lines) == (["orders"], [])
