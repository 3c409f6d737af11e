"""Each fact of a machine has its verdict, and each verdict that is not ok has a cure."""

from __future__ import annotations

import pytest

from moldau.broker.log.open_files import LOG_FILES_MAX, log_files_max
from moldau.broker.server.standalone import CONTROLLER_PORT
from moldau.cli.commands import registry_place
from moldau.cli.connect_rest import DEFAULT_URL
from moldau.cli.doctor import machine
from moldau.cli.doctor.finding import Finding, Verdict, size
from moldau.console.command import LISTEN as CONSOLE
from moldau.runtime.machine import (
    ClockFacts,
    MachineFacts,
    MemoryFacts,
    NameFacts,
    OpenFilesLimits,
    PortFacts,
)

GIB = 1 << 30
MIB = 1 << 20
OK, WARNING, PROBLEM = Verdict.OK, Verdict.WARNING, Verdict.PROBLEM


def memory(available: int, limit: int | None = None, swapped: int = 0) -> MemoryFacts:
    return MemoryFacts(8 * GIB, available, GIB if swapped else 0, GIB - swapped, limit)


def clock(
    now: float = 2000.0, jump: float = 0.0, *, synchronised: bool | None = True
) -> ClockFacts:
    return ClockFacts(now, 1000.0, jump, synchronised)


def name(*addresses: str, error: str | None = None, has_ipv6: bool = True) -> NameFacts:
    return NameFacts("localhost", addresses, error, has_ipv6)


JUDGED = [
    (machine.open_files(OpenFilesLimits(1024, 1_048_576)), OK, "1,048,576"),
    (machine.open_files(OpenFilesLimits(None, None)), OK, "any number"),
    (machine.open_files(OpenFilesLimits(1024, 4096)), WARNING, "910 partitions"),
    (machine.open_files(OpenFilesLimits(256, 256)), PROBLEM, "256"),
    (machine.mappings(65_530), OK, "65,530"),
    (machine.mappings(16_384), WARNING, "vm.max_map_count"),
    (machine.memory(memory(4 * GIB)), OK, "4.0 GiB of 8.0 GiB"),
    (machine.memory(memory(300 * MIB)), WARNING, "300 MiB"),
    (machine.memory(memory(4 * GIB, limit=256 * MIB)), WARNING, "the container's limit is 256 MiB"),
    (machine.memory(memory(64 * MIB)), PROBLEM, "64 MiB"),
    (machine.swap(memory(GIB)), OK, "none"),
    (machine.swap(memory(GIB, swapped=10 * MIB)), OK, "10 MiB"),
    (machine.swap(memory(GIB, swapped=600 * MIB)), WARNING, "600 MiB"),
    (machine.cores(4, 4), OK, "4"),
    (machine.cores(256, 192.0), OK, "limited to 192"),
    (machine.cores(4, 0.5), WARNING, "limited to 0.5"),
    (machine.clock(clock()), OK, "time server"),
    (machine.clock(clock(synchronised=None)), OK, "nothing says"),
    (machine.clock(clock(synchronised=False)), WARNING, "no time server"),
    (machine.clock(clock(jump=-3.0)), WARNING, "-3.000 s"),
    (machine.clock(clock(now=500.0)), PROBLEM, "before moldau was installed"),
    (machine.localhost(name("127.0.0.1", "::1")), OK, "127.0.0.1"),
    (machine.localhost(name("127.0.0.1", "::1", has_ipv6=False)), WARNING, "no IPv6"),
    (machine.localhost(name("::1")), PROBLEM, "not 127.0.0.1"),
    (machine.localhost(name(error="not known")), PROBLEM, "not known"),
    (machine.localhost(None), PROBLEM, "in time"),
    (machine.host_name("box", name("10.0.0.7")), OK, "box is 10.0.0.7"),
    (machine.host_name("box", name(error="not known")), WARNING, "box has no address"),
    (machine.host_name("box", None), WARNING, "no name server"),
]


@pytest.mark.parametrize(("finding", "verdict", "words"), JUDGED)
def test_a_fact_has_its_verdict(finding: Finding, verdict: Verdict, words: str) -> None:
    assert finding.verdict is verdict
    assert words in finding.found
    assert bool(finding.why) == bool(finding.cure) == (verdict is not OK)


def test_ports_that_are_free_or_ours_share_a_line() -> None:
    found = machine.ports(
        [
            PortFacts(9092, False, None),
            PortFacts(9093, True, "process 7 (moldau broker start)"),
            PortFacts(8083, True, "process 8 (java connect)"),
            PortFacts(8081, True, None),
        ]
    )

    assert [each.verdict for each in found] == [OK, WARNING, WARNING]
    assert found[0].found == "9092 free, 9093 has moldau (process 7 (moldau broker start))"
    assert "process 8 (java connect)" in found[1].found
    assert "another user" in found[2].found
    assert all("--listen" in each.cure for each in found[1:])


def test_the_ports_are_those_where_everything_listens_by_default() -> None:
    of_addresses = {
        "Connect": DEFAULT_URL,
        "console": CONSOLE,
        "registry": registry_place.DEFAULT,
    }

    by_name = {name: port for port, name in machine.PORTS.items()}
    assert by_name["controller"] == CONTROLLER_PORT
    for each, address in of_addresses.items():
        assert address.endswith(f":{by_name[each]}")


def test_what_the_system_does_not_say_is_left_out() -> None:
    facts = MachineFacts(None, None, None, 2, 2)

    assert [each.check for each in machine.machine_findings(facts)] == ["cores"]


def test_the_mappings_that_are_wanted_are_enough_for_all_that_logs_may_open() -> None:
    assert machine.MAPPINGS_WANTED >= LOG_FILES_MAX * 2 - 10
    assert log_files_max(machine.FILES_WANTED) >= machine.FILES_A_PARTITION * 3_000


@pytest.mark.parametrize(
    ("count", "text"),
    [(7, "7 bytes"), (1536, "1.5 KiB"), (20 * GIB, "20 GiB"), (3 << 50, "3072 TiB")],
)
def test_sizes_are_read_at_a_glance(count: int, text: str) -> None:
    assert size(count) == text
