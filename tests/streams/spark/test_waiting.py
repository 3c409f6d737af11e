"""An app on Spark waits while its broker is away, also in the middle of a batch.

The stages run on a real broker, without Java: see `tests.streams.spark.batches`.
"""

from __future__ import annotations

from contextlib import ExitStack
from pathlib import Path
from random import Random

import pytest

from moldau.client import TransactionError
from moldau.errors.codes import ErrorCode, KafkaError
from moldau.streams import Streams
from moldau.streams.changelog.ranges import BrokersAway
from moldau.streams.problems import StreamsError
from moldau.streams.spark.waiting import is_passing
from moldau.testing import SyncEmbeddedBroker
from tests.connect.processes import wait_until
from tests.spark import streams_apps as apps
from tests.streams.spark.batches import Context, app_on


def test_an_app_waits_while_its_broker_is_away_and_each_record_counts_once(
    tmp_path: Path, moldau_topic: str, caplog: pytest.LogCaptureFixture
) -> None:
    app = Streams(moldau_topic, emit="every")
    lines = app.stream(f"{moldau_topic}-lines", str, key=str)
    lines.group_by_key().count(name="counts").changes().to(f"{moldau_topic}-out")
    context = Context(tmp_path, Random(1))
    with ExitStack() as left:
        broker = left.enter_context(SyncEmbeddedBroker(directory=str(tmp_path / "broker")))
        servers = broker.bootstrap_servers
        given = {
            "bootstrap.servers": servers,
            "admin.default.api.timeout.ms": "3000",
            "producer.max.block.ms": "3000",
            "producer.start.timeout.ms": "2000",
        }
        apps.make_topics(servers, app)
        checkpoint = tmp_path / "checkpoint"
        left.enter_context(app_on(context, app.plan(), checkpoint, given)).start()

        def count() -> int:
            return len(apps.outs_of(servers, app))

        def go_away_and_come_back() -> None:
            wait_until(lambda: "it waits for its brokers" in caplog.text, "it says that it waits")
            broker.start()
            wait_until(lambda: "it goes on after" in caplog.text, "it says that it goes on")
            caplog.clear()

        apps.write(servers, app.name, 0, 10, has_cities=False)
        wait_until(lambda: count() == 10, "the first counts")
        broker.stop()  # between two batches
        go_away_and_come_back()

        context.before = broker.stop  # in the middle of a batch
        apps.write(servers, app.name, 10, 10, has_cities=False)
        go_away_and_come_back()
        wait_until(lambda: count() == 20, "all counts")

        for outs in apps.in_order(apps.outs_of(servers, app), app.name).values():
            assert [int(value) for value, _, _ in outs] == list(range(1, len(outs) + 1))


@pytest.mark.parametrize(
    ("error", "passes"),
    [
        (KafkaError(ErrorCode.NETWORK_EXCEPTION), True),
        (KafkaError(ErrorCode.BROKER_NOT_AVAILABLE), True),
        (TransactionError(ErrorCode.REQUEST_TIMED_OUT), True),
        (BrokersAway("no record in 60 s"), True),
        (KafkaError(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION), False),
        (TransactionError(ErrorCode.PRODUCER_FENCED), False),
        (KafkaError(ErrorCode.TOPIC_AUTHORIZATION_FAILED), False),
        (StreamsError("a record fails"), False),
    ],
)
def test_only_what_passes_when_brokers_answer_is_waited_for(
    error: KafkaError | StreamsError, *, passes: bool
) -> None:
    assert is_passing(error) == passes


def test_a_python_process_that_starts_too_slowly_is_tried_again(
    moldau_broker: SyncEmbeddedBroker,
    moldau_topic: str,
    tmp_path: Path,
    caplog: pytest.LogCaptureFixture,
) -> None:
    servers, app = moldau_broker.bootstrap_servers, apps.word_count(moldau_topic)
    apps.make_topics(servers, app)
    apps.write(servers, app.name, 0, 10, has_cities=False)
    context = Context(tmp_path, Random(1))
    py4j = pytest.importorskip("py4j.protocol", reason="pyspark is not installed")

    def fail() -> None:
        raise py4j.Py4JError("SparkException: Python worker failed to connect back.")

    context.before = fail  # in the first batch alone
    given = {"bootstrap.servers": servers}
    with app_on(context, app.plan(), tmp_path / "checkpoint", given) as running:
        running.process_available()

    assert len(apps.outs_of(servers, app)) == 20
    assert "it tries again: a Python process of Spark did not start within" in caplog.text
