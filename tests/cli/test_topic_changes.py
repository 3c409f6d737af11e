"""`moldau topic trim|alter` and `moldau config`: what is done is told, and what is not too."""

from __future__ import annotations

import pytest

from tests.cli.groups import cluster as cluster
from tests.cli.groups import fill
from tests.cli.groups import shell as shell
from tests.cli.shell import Shell
from tests.conformance.broker import moldau as moldau
from tests.peers.eventually import eventually
from tests.peers.kafka_broker import kafka_broker as kafka_broker


def starts(shell: Shell, topic: str) -> list[int]:
    """Where each partition begins."""
    return [each["earliest"] for each in shell.good("offsets", topic, "--json").json]


def settings_of(shell: Shell, topic: str) -> dict[str, str]:
    (described,) = shell.good("topic", "describe", topic, "--json").json
    found: dict[str, str] = described["configs"]
    return found


@pytest.mark.real
def test_a_partition_that_is_too_short_is_told_beside_those_that_were_trimmed(
    shell: Shell,
) -> None:
    fill(shell, "uneven", [5, 2, 4])
    done = shell("topic", "trim", "uneven", "--before", "3")
    assert done.code == 1
    assert done.err == "moldau: not trimmed: 1 of 3 partitions\n"
    assert [row[:3] for row in done.rows] == [
        ["uneven", "0", "3"],
        ["uneven", "1", "-"],
        ["uneven", "2", "3"],
    ]
    assert "OFFSET_OUT_OF_RANGE: the log ends before that offset" in done.out
    assert starts(shell, "uneven") == [3, 0, 3]
    again = shell("topic", "trim", "uneven", "--before", "4", "--json")
    assert again.code == 1
    assert [each["log_start_offset"] for each in again.json] == [4, None, 4]
    (none, error, _) = (each["error"] for each in again.json)
    assert none is None
    assert error.startswith("OFFSET_OUT_OF_RANGE: the log ends before that offset")
    assert "before=4" in error
    good = shell.good("topic", "trim", "uneven", "--before", "end", "--json").json
    assert [each["log_start_offset"] for each in good] == [5, 2, 4]


@pytest.mark.real
def test_a_topic_that_is_only_compacted_is_told_what_it_lacks(shell: Shell) -> None:
    shell.good("topic", "create", "kept", "--partitions", "1", "--config", "cleanup.policy=compact")
    done = shell("topic", "trim", "kept", "--before", "end")
    assert done.code == 1
    assert "POLICY_VIOLATION" in done.out
    assert "cleanup.policy includes delete" in done.out


@pytest.mark.real
def test_settings_are_not_altered_when_partitions_cannot_be(shell: Shell) -> None:
    fill(shell, "both", [0, 0])
    done = shell("topic", "alter", "both", "--config", "retention.ms=99", "--partitions", "1")
    assert (done.code, done.out, done.err.count("\n")) == (1, "", 1)
    assert done.err.startswith("moldau: INVALID_PARTITIONS")
    assert settings_of(shell, "both") == {}
    worse = shell("topic", "alter", "both", "--config", "retention.ms=x", "--partitions", "3")
    assert worse.err.startswith("moldau: INVALID_CONFIG")
    shell.good("topic", "alter", "both", "--config", "retention.ms=99", "--partitions", "3")
    eventually(lambda: settings_of(shell, "both") == {"retention.ms": "99"})
    eventually(lambda: len(starts(shell, "both")) == 3)


@pytest.mark.real
def test_what_was_altered_before_it_failed_is_told(
    shell: Shell, monkeypatch: pytest.MonkeyPatch
) -> None:
    from moldau.client import Admin
    from moldau.errors.codes import ErrorCode, KafkaError

    create_partitions = Admin.create_partitions

    async def fails_later(
        self: Admin, topic: str, count: int, *, validate_only: bool = False
    ) -> None:
        await create_partitions(self, topic, count, validate_only=validate_only)
        if not validate_only:
            raise KafkaError(ErrorCode.INVALID_REPLICATION_FACTOR, "too few brokers", topic=topic)

    monkeypatch.setattr(Admin, "create_partitions", fails_later)
    fill(shell, "later", [0])
    done = shell("topic", "alter", "later", "--config", "retention.ms=99", "--partitions", "2")
    assert (done.code, done.err.count("\n")) == (1, 1)
    assert done.err.startswith(
        "moldau: INVALID_REPLICATION_FACTOR: the settings (retention.ms) were altered, the "
        "partitions were not: too few brokers"
    )
    alone = shell("topic", "alter", "later", "--partitions", "3")
    assert alone.err.startswith("moldau: INVALID_REPLICATION_FACTOR: too few brokers")


@pytest.mark.real
@pytest.mark.parametrize(
    "words",
    [
        ("config", "describe", "topic", "no-such"),
        ("config", "set", "topic", "no-such", "retention.ms=5"),
        ("config", "unset", "topic", "no-such", "retention.ms"),
        ("topic", "alter", "no-such", "--config", "retention.ms=5"),
        ("topic", "alter", "no-such", "--config", "retention.ms=5", "--partitions", "9"),
        ("topic", "alter", "no-such", "--unset", "retention.ms"),
    ],
)
def test_settings_of_a_topic_that_there_is_not_are_told_at_once(
    shell: Shell, words: tuple[str, ...]
) -> None:
    """The error of a retry says how often it was tried."""
    done = shell(*words)
    assert (done.code, done.err.count("\n")) == (1, 1)
    assert done.err.startswith("moldau: UNKNOWN_TOPIC_OR_PARTITION")
    assert "attempts" not in done.err


@pytest.mark.real
def test_names_that_are_no_settings_are_told(shell: Shell) -> None:
    fill(shell, "names", [0])
    both = shell("config", "describe", "topic", "names", "nope", "retention.ms")
    assert both.code == 1
    assert both.rows[0][0] == "retention.ms"
    assert both.err == "moldau: topic names has no setting nope\n"
    alone = shell("config", "describe", "topic", "names", "retention.mss", "--json")
    assert (alone.code, alone.json) == (1, [])
    assert alone.err == (
        "moldau: topic names has no setting retention.mss (did you mean retention.ms?)\n"
    )
    assert shell("config", "describe", "topic", "names", "nope").out == ""
    for words in (
        ("config", "unset", "topic", "names", "retention.ms", "nope"),
        ("topic", "alter", "names", "--unset", "nope"),
    ):
        done = shell(*words)
        assert (done.code, done.out) == (1, "")
        assert done.err == "moldau: topic names has no setting nope\n"
    # What is not set can be unset, of a group that there is not yet too.
    shell.good("config", "unset", "topic", "names", "retention.ms", "retention.ms")
    shell.good("config", "unset", "group", "names-group", "consumer.session.timeout.ms")


@pytest.mark.real
@pytest.mark.parametrize("broker", ["1", "default"])
def test_a_topics_setting_is_given_to_a_broker_by_force_alone(shell: Shell, broker: str) -> None:
    """Plugins of a broker read settings that it does not know."""
    setting = ("config", "set", "broker", broker, "retention.ms=5")
    for _ in range(2):  # it is described by then, and still no setting of the broker's own
        for words in (setting, (*setting, "--dry-run")):
            refused = shell(*words)
            assert refused.code == 1
            hint = "no setting retention.ms (did you mean log.retention.ms?); --force"
            assert hint in refused.err
        done = shell(*setting, "--force")
        assert (done.code, done.err) == (0, "")
        eventually(lambda: "retention.ms" in shell.good("config", "describe", "broker", broker).out)
    shell.good("config", "unset", "broker", broker, "retention.ms")
    eventually(lambda: shell("config", "unset", "broker", broker, "retention.ms").code == 1)
    shell.good("config", "set", "broker", broker, "log.cleaner.threads=1", "--dry-run")
    shell.good("config", "unset", "broker", broker, "log.cleaner.threads")


@pytest.mark.parametrize(
    ("words", "told"),
    [
        (("config", "set", "topic", "r", "a.b=5", "a.b=6"), "a.b is given twice"),
        (("topic", "create", "r", "--config", "a.b=5", "--config", "a.b=5"), "a.b is given twice"),
        (("topic", "alter", "r", "--config", "a.b=5", "--unset", "a.b"), "both set and unset"),
        (("topic", "create", "b", "--partitions", "99999999999"), "from 1 to 2147483647"),
        (("topic", "create", "b", "--partitions", "0"), "from 1 to 2147483647"),
        (("topic", "create", "b", "--replicas", "32768"), "from 1 to 32767"),
        (("topic", "alter", "b", "--partitions", "two"), "'two' is no number from 1"),
        (("topic", "trim", "b", "--before", str(2**63)), "takes an offset"),
        (("consume", "b", "--from", str(2**63)), "no place"),
        (("consume", "b", "--from", f"@{2**63}"), "no place"),
        (("offsets", "b", "--at", f"@{2**63}"), "no place"),
    ],
)
def test_mistakes_are_told_without_a_cluster(words: tuple[str, ...], told: str) -> None:
    done = Shell("127.0.0.1:1")(*words)
    assert done.code == 2, done
    assert told in done.err


def test_of_a_clients_settings_the_last_of_a_name_wins() -> None:
    words = ("--set", "bootstrap.servers=nohost", "--set", "bootstrap.servers=127.0.0.1:2")
    done = Shell("127.0.0.1:1")("topic", "list", *words, "--set", "default.api.timeout.ms=500")
    assert done.code == 1
    assert "127.0.0.1:2" in done.err


@pytest.mark.real
def test_a_setting_of_one_listener_is_the_brokers_own(shell: Shell) -> None:
    done = shell(
        "config", "set", "broker", "1", "listener.name.plaintext.max.connections=1000", "--dry-run"
    )
    assert (done.code, done.err) == (0, "")


@pytest.mark.real
def test_one_topic_that_there_is_not_hides_no_other(shell: Shell) -> None:
    fill(shell, "cli-told", [0])
    done = shell("topic", "describe", "no-such", "cli-told", "--json")
    assert (done.code, [each["name"] for each in done.json]) == (1, ["cli-told"])
    assert done.err.startswith("moldau: UNKNOWN_TOPIC_OR_PARTITION")
    assert "no-such" in done.err
    assert shell("topic", "describe", "no-such", "cli-told").out.startswith("cli-told  id ")


@pytest.mark.real
def test_a_program_can_tell_a_dry_run(shell: Shell) -> None:
    fill(shell, "cli-tried", [0])
    words = ("config", "set", "topic", "cli-tried", "retention.ms=9", "--json")
    tried = shell.good(*words, "--dry-run").json
    assert tried == {"set": [], "would_set": ["retention.ms"]}
    assert settings_of(shell, "cli-tried") == {}
    assert shell.good(*words).json == {"set": ["retention.ms"]}
