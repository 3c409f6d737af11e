"""A test that is a coroutine runs on a loop of its own, with its `runtime` and its `cluster`."""

from __future__ import annotations

from inspect import iscoroutinefunction
from typing import Any

import pytest

from moldau.runtime import Runtime
from moldau.runtime.real import RealRuntime, run
from moldau.testing import SyncEmbeddedBroker
from tests.streams.worker.running import Cluster


@pytest.fixture
def runtime() -> Runtime:
    """In a coroutine it is the one of its loop."""
    return RealRuntime()


@pytest.fixture
def cluster(moldau_broker: SyncEmbeddedBroker, runtime: Runtime) -> Cluster:
    """The broker of the session, and what workers do with it."""
    return Cluster(moldau_broker.bootstrap_servers, runtime)


def pytest_pyfunc_call(pyfuncitem: pytest.Function) -> bool | None:
    test = pyfuncitem.obj
    if not iscoroutinefunction(test):
        return None
    given: dict[str, Any] = {
        name: pyfuncitem.funcargs[name] for name in pyfuncitem._fixtureinfo.argnames
    }

    async def whole(runtime: Runtime) -> None:
        if "runtime" in given:
            given["runtime"] = runtime
        if "cluster" in given:
            given["cluster"].runtime = runtime
        await test(**given)

    run(whole)
    return True
