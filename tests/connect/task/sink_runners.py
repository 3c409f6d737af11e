"""A sink task that runs in the test, on a real broker."""

from __future__ import annotations

from collections.abc import Sequence

from moldau.client import NewTopic
from moldau.client.sync import Admin, Producer
from moldau.connect.task.link import Link
from moldau.connect.task.messages import Message, TaskSpec
from moldau.connect.task.sink import SinkRunner
from moldau.logging import Loggers
from moldau.runtime.real import RealClock
from moldau.testing import SyncEmbeddedBroker


def sink_runner(
    broker: SyncEmbeddedBroker, topic: str, values: Sequence[bytes], **settings: str
) -> SinkRunner:
    """A runner of a task that reads the topic, which has these values; TOPIC-dead is there too. The
    caller says which connector it is of, by `parts.connector_class`."""
    with Admin(bootstrap_servers=broker.bootstrap_servers) as admin:
        admin.create_topics([NewTopic(each, 1, 1) for each in (topic, f"{topic}-dead")])
    with Producer(bootstrap_servers=broker.bootstrap_servers) as producer:
        producer.send_many(topic, values)
        producer.flush()
    text = "org.apache.kafka.connect.storage.StringConverter"
    config = {"connector.class": "x", "topics": topic, "value.converter": text}
    config |= {"key.converter": text}
    config |= {name.replace("_", "."): value for name, value in settings.items()}
    sent: list[Message] = []
    log = Loggers(RealClock(), lambda line: None).get("moldau.connect.sink")
    worker = {"bootstrap.servers": broker.bootstrap_servers}
    task = TaskSpec(topic, 0, worker, config, config)
    made = SinkRunner(task, Link(sent.append), RealClock(), log)
    made.open()
    return made
