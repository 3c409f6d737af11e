"""`moldau share dlq`: a dead letter is listed and replayed."""

from __future__ import annotations

import pytest

from moldau.client.sync import ShareConsumer
from moldau.testing import SyncEmbeddedBroker
from tests.cli.shell import Shell

pytestmark = pytest.mark.real


def test_a_dead_letter_is_read_and_replayed() -> None:
    with SyncEmbeddedBroker() as broker:
        servers = broker.bootstrap_servers
        shell = Shell(servers)
        shell.good("topic", "create", "orders", "--partitions", "2")
        none = shell("share", "dlq", "list", "mailer")
        assert (none.code, "has no share.dlq.topic" in none.err) == (1, True)
        settings = ("share.auto.offset.reset=earliest", "share.dlq.topic=dlq.mailer")
        shell.good("config", "set", "group", "mailer", *settings)
        assert shell.good("share", "dlq", "list", "mailer", "--json").json == []
        shell.good("produce", "orders", "--partition", "1", source="good\nbad\n")
        with ShareConsumer("orders", group="mailer", bootstrap_servers=servers) as queue:
            for message in queue:
                if message.value == b"bad":
                    message.reject("no address")
                    break
                message.ack()
            assert queue.commit() == {}
        (letter,) = shell.good("share", "dlq", "list", "mailer", "--json").json
        assert (letter["topic"], letter["partition"], letter["offset"]) == ("orders", 1, 1)
        assert (letter["message"], letter["value"]) == ("no address", "bad")
        assert "replayed" not in letter
        forged = ("--header", "__dlq.errors.group=mailer")
        shell.good("produce", "dlq.mailer", *forged, source="of no broker\n")
        assert len(shell.good("share", "dlq", "list", "mailer", "--json").json) == 1
        assert shell("share", "dlq", "list", "mailer", "--execute").code == 2
        planned = shell.good("share", "dlq", "replay", "mailer").out
        assert "dry run" in planned
        assert sorted(shell.good("consume", "orders").out.split()) == ["bad", "good"]
        (sent,) = shell.good("share", "dlq", "replay", "mailer", "--execute", "--json").json
        assert sent["replayed"] is True
        listed = shell.good("share", "dlq", "list", "mailer").out
        assert "REPLAYED" not in listed, "a letter that was replayed is not said not to be"
        assert sorted(shell.good("consume", "orders").out.split()) == ["bad", "bad", "good"]
