"""`moldau consume` with templates of lines."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from moldau.testing import SyncEmbeddedBroker
from tests.cli.shell import Shell

USER = '{"type":"record","name":"User","fields":[{"name":"name","type":"string"},' \
       '{"name":"photo","type":"bytes"}]}'  # fmt: skip


@pytest.fixture(scope="module")
def broker() -> Iterator[str]:
    with SyncEmbeddedBroker() as running:
        shell = Shell(running.bootstrap_servers)
        shell.good("topic", "create", "orders", "-p", "2")
        shell.good("produce", "orders", "--keys", "--partition", "1", "--header", "a=b", "--header",
                   "c=d", source="k:gr\u00fc\u00df\nempty:\n")  # fmt: skip
        shell.good("produce", "orders", "--keys", "--partition", "1", "--null", "-", source="n:-\n")
        yield running.bootstrap_servers


def test_a_template_says_each_part_of_a_record(broker: str) -> None:
    shell = Shell(broker)
    said = shell.good("consume", "orders", "--format", r"%t\t%p %o %k=%v|%s %K %S [%h] 100%%\n").out
    assert said.splitlines() == [
        "orders\t1 0 k=gr\u00fc\u00df|gr\u00fc\u00df 1 6 [a=b,c=d] 100%",
        "orders\t1 1 empty=| 5 0 [a=b,c=d] 100%",
        "orders\t1 2 n=| 1 -1 [] 100%",
    ]
    assert shell.good("consume", "orders", "--format", r"%o\x2c", "--count", "2").out == "0,1,"
    (stamp,) = shell.good("consume", "orders", "--format", "%T", "--count", "1").out.split()
    assert int(stamp) > 1_500_000_000_000


@pytest.mark.parametrize(
    ("template", "told"),
    [("%q", "no %q"), ("%k %", "ends with %"), ("\\q", r"no \q"), ("plain", "no template"),
     ("%v\\", "ends with \\")],
)  # fmt: skip
def test_a_wrong_template_is_told_before_anything_is_read(template: str, told: str) -> None:
    done = Shell("127.0.0.1:1")("consume", "orders", "--format", template)
    assert (done.code, done.out) == (2, "")
    assert told in done.err
