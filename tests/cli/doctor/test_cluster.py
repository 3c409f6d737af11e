"""A cluster is judged by the addresses that its brokers advertise, as its clients see them."""

from __future__ import annotations

import pytest

from moldau.cli.doctor.cluster import (
    SeenBroker,
    SeenCluster,
    cluster_findings,
    not_examined,
    unreached,
)
from moldau.cli.doctor.finding import Finding, Verdict
from moldau.errors.codes import ErrorCode, KafkaError
from moldau.link.addresses import Address

LEVELS = {"metadata.version": (1, 30)}
REMOTE = "kafka.example:9092"


def broker(host: str, error: str | None = None, top: int = 30, node: int = 1) -> SeenBroker:
    levels = {} if error else {"metadata.version": (1, top)}
    return SeenBroker(node, Address(host, 9092), 0.01, error, levels)


def findings(
    *brokers: SeenBroker, bootstrap: str = REMOTE, level: int = 30, ahead: float | None = 3.0
) -> dict[str, Finding]:
    features = {"metadata.version": level} if level else {}
    seen = SeenCluster("an-id", bootstrap, brokers, features, ahead, 4.0)
    return {each.check: each for each in cluster_findings(seen)}


def test_a_cluster_that_is_reached_is_ok() -> None:
    found = findings(broker("kafka.example"), broker("kafka-2.example", node=2))

    assert {each.verdict for each in found.values()} == {Verdict.OK}
    assert "+3 ms" in found["cluster clock"].found


def test_a_broker_that_is_down_is_a_problem() -> None:
    seen = SeenCluster("an-id", REMOTE, [broker("kafka.example")], {}, 3.0, 4.0, fenced=[2])
    found = {each.check: each for each in cluster_findings(seen)}

    assert found["broker 1"].verdict is Verdict.OK
    assert found["broker 2"].verdict is Verdict.PROBLEM


def test_of_several_addresses_one_is_said_to_be_reached() -> None:
    found = findings(broker("kafka.example"), bootstrap=f"kafka-2.example:9092,{REMOTE}")
    assert "reached at one of " in found["cluster"].found


@pytest.mark.parametrize(
    ("seen", "bootstrap", "words"),
    [
        (broker("kafka-1", "Name or service not known"), REMOTE, "Name or service not known"),
        (broker("localhost", "Connection refused"), REMOTE, "localhost:9092"),
        (broker("localhost"), REMOTE, "localhost:9092"),
        (broker("0.0.0.0"), f"localhost:9092,{REMOTE}", "0.0.0.0"),  # noqa: S104
        (broker("::1"), "SSL://kafka.example:9092", "[::1]:9092"),
    ],
)
def test_an_address_that_clients_do_not_reach_is_a_problem(
    seen: SeenBroker, bootstrap: str, words: str
) -> None:
    found = findings(seen, bootstrap=bootstrap)["broker 1"]

    assert found.verdict is Verdict.PROBLEM
    assert words in found.found
    assert "advertised.listeners" in found.cure


@pytest.mark.parametrize("bootstrap", ["localhost:9092", "127.0.0.1:9092", "[::1]:9092"])
def test_localhost_is_fine_for_clients_on_the_same_machine(bootstrap: str) -> None:
    assert findings(broker("localhost"), bootstrap=bootstrap)["broker 1"].verdict is Verdict.OK


def test_brokers_of_two_versions_are_warned_of() -> None:
    found = findings(broker("a.example"), broker("b.example", top=27, node=2), level=27)

    assert found["versions"].verdict is Verdict.WARNING
    assert "1 and 2" in found["versions"].found


def test_a_higher_level_is_named_if_all_brokers_know_it() -> None:
    assert "30 is possible" in findings(broker("a.example"), level=27)["features"].found
    assert "none" in findings(broker("a.example"), level=0)["features"].found


@pytest.mark.parametrize(
    ("ahead", "verdict"),
    [(None, Verdict.OK), (-900.0, Verdict.OK), (5_000.0, Verdict.WARNING)],
)
def test_a_clock_may_differ_by_a_second(ahead: float | None, verdict: Verdict) -> None:
    assert findings(broker("a.example"), ahead=ahead)["cluster clock"].verdict is verdict


def test_a_client_that_cannot_be_imported_is_a_problem() -> None:
    found = not_examined("no GLIBC_9")

    assert found.verdict is Verdict.PROBLEM
    assert "no GLIBC_9" in found.found


def test_a_cluster_that_does_not_answer_is_one_problem() -> None:
    error = KafkaError(ErrorCode.BROKER_NOT_AVAILABLE, "no broker", tried={"a:1": "refused"})

    found = unreached("a:1", error)

    assert found.verdict is Verdict.PROBLEM
    assert found.found == "a:1: no broker: a:1: refused"
