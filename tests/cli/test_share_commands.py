"""`moldau share` against Apache Kafka and against moldau."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from moldau.client import TopicPartition
from moldau.client.sync import Admin, ShareConsumer, ShareGroupAdmin
from moldau.errors.codes import ErrorCode
from moldau.testing import SyncEmbeddedBroker
from tests.cli.groups import Cluster, fill, member
from tests.cli.groups import cluster as cluster
from tests.cli.groups import shell as shell
from tests.cli.share_groups import share_member
from tests.cli.shell import Shell
from tests.conformance.broker import moldau as moldau
from tests.peers.kafka_broker import kafka_broker as kafka_broker

pytestmark = pytest.mark.real

DRY = "dry run: nothing was changed; --execute does it\n"


def starts(shell: Shell, group: str) -> dict[tuple[str, int], int | None]:
    """Where a share group begins, by topic and partition."""
    found = shell.good("share", "offsets", group, "--json").json
    return {(each["topic"], each["partition"]): each["start"] for each in found}


def test_a_share_group_from_its_first_offsets_to_its_end(shell: Shell, cluster: Cluster) -> None:
    topic, group = "share-life", "share-life-group"
    fill(shell, topic, [5, 3])
    reset = ("share", "reset", group, "--topic", topic, "--to-earliest")
    assert shell.good(*reset).out.endswith(DRY)
    gone = shell("share", "offsets", group)
    assert (gone.code, gone.err.startswith("moldau: GROUP_ID_NOT_FOUND")) == (1, True)
    shell.good(*reset, "--execute")
    assert starts(shell, group) == {(topic, 0): 0, (topic, 1): 0}
    with share_member(cluster, group, topic) as member_id:
        assert [group, "Stable"] in shell.good("share", "list", "--state", "Stable").rows
        (described,) = shell.good("share", "describe", group, "--json").json
        (who,) = described["members"]
        assert (described["state"], described["lag"]) == ("Stable", 8)
        assert (who["member_id"], len(who["assignment"])) == (member_id, 2)
        assert [each["member_ids"] for each in described["offsets"]] == [[member_id]] * 2
        assert [each["end"] for each in described["offsets"]] == [5, 3]
        refused = shell("share", "reset", group, "--to-latest", "--execute")
        assert refused.code == 1
        assert refused.err == f"moldau: group {group} has 1 member: stop them first\n"
        assert shell("share", "delete", group).err.startswith("moldau: NON_EMPTY_GROUP")
    assert starts(shell, group) == {(topic, 0): 0, (topic, 1): 0}
    words = ("share", "reset", group, "--to-offset", "4", "--execute", "--json")
    changed = shell.good(*words).json
    assert [each["after"] for each in changed["offsets"]] == [4, 3]
    assert changed["executed"] is True
    found = shell.good("share", "offsets", group, "--json").json
    assert [each["lag"] for each in found] == [1, 0]
    deleted = shell.good("share", "delete", group, "--topic", topic)
    assert deleted.out == f"deleted {topic} of {group}\n"
    assert starts(shell, group) == {}
    assert shell.good("share", "delete", group).out == f"deleted {group}\n"
    assert group not in shell.good("share", "list").out


def test_peeking_acquires_nothing(shell: Shell) -> None:
    topic, group = "share-peek", "share-peek-group"
    fill(shell, topic, [4, 2])
    shell.good("share", "reset", group, "--topic", topic, "--to-offset", "1", "--execute")
    words = ("share", "peek", group, "--format", "value")
    for _ in range(2):
        peeked = shell(*words)
        assert peeked.code == 0
        assert peeked.out.split() == ["0-1", "0-2", "0-3", "1-1"]
        assert peeked.err.startswith("moldau: nothing is acquired; ")
    assert starts(shell, group) == {(topic, 0): 1, (topic, 1): 1}
    assert shell(*words, "--topic", f"{topic}:1").out.split() == ["1-1"]
    rows = [json.loads(each) for each in shell(*words, "--count", "2", "--json").out.splitlines()]
    assert [(each["partition"], each["offset"]) for each in rows] == [(0, 1), (0, 2)]
    nowhere = shell("share", "peek", group, "--topic", "share-other")
    assert (nowhere.code, "stands nowhere in share-other" in nowhere.err) == (1, True)


def test_a_share_group_begins_where_a_consumer_group_stands(shell: Shell, cluster: Cluster) -> None:
    topic, old, new = "share-move", "share-move-old", "share-move-new"
    fill(shell, topic, [6, 4])
    init = ("share", "init", new, "--from-group", old)
    unknown = shell(*init)
    assert (unknown.code, "has committed nothing" in unknown.err) == (1, True)
    with member(cluster, old, topic, {"group.protocol": "consumer"}):
        busy = shell(*init, "--execute")
        assert busy.code == 1
        assert busy.err == f"moldau: group {old} has 1 member: stop them first\n"
    shell.good("group", "reset", old, "--topic", f"{topic}:0", "--to-offset", "2", "--execute")
    planned = shell.good(*init)
    assert planned.out.endswith(DRY)
    assert new not in shell.good("share", "list").out
    assert shell.good(*init, "--execute").rows == planned.rows[:-1]
    assert starts(shell, new) == {(topic, 0): 2, (topic, 1): 4}
    same = shell("share", "init", old, "--from-group", old)
    assert (same.code, "another name" in same.err) == (2, True)
    shell.good("share", "reset", new, "--to-latest", "--execute")
    shell.good(*init, "--topic", f"{topic}:0", "--execute")
    assert starts(shell, new) == {(topic, 0): 2, (topic, 1): 4}


def test_starts_are_shifted_kept_and_read_from_a_file(shell: Shell, tmp_path: Path) -> None:
    topic, group, other = "share-shift", "share-shift-group", "share-shift-other"
    fill(shell, topic, [6, 4])
    reset = ("share", "reset", group, "--execute")
    shell.good(*reset, "--topic", topic, "--to-offset", "3")
    shell.good(*reset, "--shift-by", "-2")
    assert starts(shell, group) == {(topic, 0): 1, (topic, 1): 1}
    shell.good(*reset, "--topic", f"{topic}:1", "--shift-by", "90")
    assert starts(shell, group) == {(topic, 0): 1, (topic, 1): 4}
    shell.good(*reset, "--to-current")
    assert starts(shell, group) == {(topic, 0): 1, (topic, 1): 4}
    file = tmp_path / "offsets"
    file.write_text(shell.good("share", "reset", group, "--to-current", "--export").out)
    assert file.read_text().splitlines() == [f"{topic},0,1", f"{topic},1,4"]
    shell.good("share", "reset", other, "--from-file", str(file), "--execute")
    assert starts(shell, other) == {(topic, 0): 1, (topic, 1): 4}
    new = ("share", "reset", "share-shift-new", "--topic", topic, "--execute")
    fresh = shell(*new, "--shift-by", "1")
    assert (fresh.code, "nothing is committed to shift from" in fresh.err + fresh.out) == (1, True)
    file.write_text(f"{group},{topic},0,5\n{other},{topic},1,2\n")
    shell.good("share", "reset", "--from-file", str(file), "--execute")
    assert starts(shell, group) == {(topic, 0): 5, (topic, 1): 4}
    assert starts(shell, other) == {(topic, 0): 1, (topic, 1): 2}


def test_groups_of_another_kind_are_refused_and_stay(shell: Shell, cluster: Cluster) -> None:
    topic, group = "share-kind", "share-kind-consumers"
    fill(shell, topic, [1])
    shell.good("group", "reset", group, "--topic", topic, "--to-latest", "--execute")
    commands = (
        ("describe", group),
        ("offsets", group),
        ("peek", group),
        ("delete", group),
        ("delete", group, "--topic", topic),
        ("reset", group, "--topic", topic, "--to-latest", "--execute"),
        ("init", group, "--from-group", "another", "--execute"),
    )
    for words in commands:
        refused = shell("share", *words)
        assert refused.code == 1, words
        assert f"{group} is no share group but a " in refused.err, words
        assert refused.err.count("\n") == 1, words
    assert group in shell.good("group", "list").out


def test_offsets_are_changed_from_python_as_well(shell: Shell, cluster: Cluster) -> None:
    topic, group = "share-python", "share-python-group"
    fill(shell, topic, [3])
    first, missing = TopicPartition(topic, 0), TopicPartition(topic, 7)
    with Admin(bootstrap_servers=cluster.bootstrap_servers) as admin:
        shares = ShareGroupAdmin(admin)
        results = shares.alter_offsets(group, {first: 2, missing: 1})
        assert results[first] is None
        error = results[missing]
        assert error is not None
        assert error.code is ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
        assert shares.offsets(group) == {first: (2, 1)}
        assert shares.delete_offsets(group, [topic]) == {topic: None}
        assert shares.offsets(group) == {}
        admin.delete_group(group)


@pytest.mark.parametrize(
    ("words", "told"),
    [
        (("describe",), "name share groups, or give --all"),
        (("offsets",), "name share groups, or give --all"),
        (("describe", "g", "--all"), "name share groups, or give --all"),
        (("reset", "g", "--to-offset", "-1"), "--to-offset cannot be negative"),
        (("peek", "g", "--count", "0"), "is no number from 1"),
        (("reset", "g"), "one of the arguments --to-earliest"),
        (("reset", "--to-latest"), "name a group"),
        (("reset", "g", "--from-file", "-", "--topic", "t"), "--topic"),
        (("reset", "g", "--to-latest", "--export", "--json"), "--export writes CSV"),
        (("delete", "g", "--topic", "\udcff"), "is no name of a topic"),
    ],
)
def test_misuse_is_told_before_anything_is_asked(words: tuple[str, ...], told: str) -> None:
    refused = Shell("127.0.0.1:1")("share", *words)
    assert (refused.code, told in refused.err) == (2, True), refused


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
