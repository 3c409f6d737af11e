"""A call that Java, which has died, does not answer: no traceback of py4j reaches the log."""

from __future__ import annotations

import gc
import logging
import socket
import struct
import warnings
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor

import pytest

from moldau.streams.spark.failures import is_end_of_java, without_tracebacks

java_gateway = pytest.importorskip("py4j.java_gateway", reason="make demo installs pyspark")
protocol = pytest.importorskip("py4j.protocol")
pytestmark = pytest.mark.real

_RESET_AT_CLOSE = struct.pack("ii", 1, 0)


def die_in_a_call(listening: socket.socket) -> None:
    """Take one command, and be gone with the connection."""
    connection, _ = listening.accept()
    with connection:
        connection.recv(100)
        connection.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, _RESET_AT_CLOSE)
    listening.close()


def are_lost() -> list[bool]:
    """Return whether a call in which Java dies, and the next one, raise the end of Java."""
    found = []
    with socket.create_server(("127.0.0.1", 0)) as listening, ThreadPoolExecutor(1) as java:
        port = listening.getsockname()[1]
        parameters = java_gateway.GatewayParameters(port=port)
        client = java_gateway.GatewayClient(gateway_parameters=parameters)
        dying = java.submit(die_in_a_call, listening)
        for _ in range(2):
            try:
                answer = client.send_command("c\no0\ncollect\ne\n")
                protocol.get_return_value(answer, client, "o0", "collect")
            except protocol.Py4JError as error:
                found.append(is_end_of_java(error))
            dying.result()
    return found


@pytest.fixture(autouse=True)
def collected() -> Iterator[None]:
    """py4j does not close what it could not connect."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ResourceWarning)
        yield
        gc.collect()


def test_calls_that_java_does_not_answer_raise_and_log_no_traceback(
    caplog: pytest.LogCaptureFixture,
) -> None:
    caplog.set_level(logging.WARNING)
    with without_tracebacks():
        assert are_lost() == [True, True]
        logging.getLogger("shop").error("a word of the app")
        logging.error("another one")
    assert [each.getMessage() for each in caplog.records] == ["a word of the app", "another one"]

    caplog.clear()
    assert are_lost() == [True, True]
    assert [each.module for each in caplog.records] == ["java_gateway"] * 2
    assert all(each.exc_info for each in caplog.records)
