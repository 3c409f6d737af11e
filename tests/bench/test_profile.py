"""The page of profiles: what a broker writes of itself, and how it is read."""

from __future__ import annotations

from pathlib import Path

import pytest

pytest.importorskip("confluent_kafka", reason="the bench's loads need it: make peers")

from bench import profile
from bench.peer_brokers import ProfiledBroker
from bench.wire import Wire, one_record
from tests.bench.wired_topic import made


@pytest.mark.real
def test_a_section_names_the_functions_of_a_produce(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(profile, "SECONDS", 0.1)
    monkeypatch.setattr("shutil.which", lambda name: None)
    with ProfiledBroker.started() as broker:
        topic = made(broker, "profiled", 1)
        wire = Wire(broker.port, topic, 0, one_record(b"value"))

        def work(count: int) -> None:
            for _ in range(count):
                assert wire.round_trip() == 0

        lines = profile.section(broker, profile.Load("single records", work, 20))
        again = profile.section(broker, profile.Load("single records", work, 20))
        wire.close()

    for found in (lines, again):
        assert found[0] == "## single records"
        assert any("requests a second" in line for line in found)
        rows = [line for line in found if line.startswith("| `")]
        assert len(rows) == profile.TOP
        assert any("`api/produce.py serve`" in row for row in rows), (
            "what a produce cannot do without"
        )


def test_places_are_short_and_name_no_machine() -> None:
    assert (
        profile.place("/somewhere/moldau/broker/api/fetch.py", 7, "serve") == "`api/fetch.py serve`"
    )
    assert profile.place("<read FetchRequest 12>", 1, "read") == "`<read FetchRequest 12> read`"


def test_native_names_are_without_versions_and_columns() -> None:
    assert profile.readable("libc.so.6") == "libc"
    assert profile.readable("libpython3.11.so.1.0  [.] _PyEval_Eval     -      -") == (
        "_PyEval_Eval (libpython3)"
    )
    assert profile.readable("[kernel.kallsyms]     [k] tcp_sendmsg") == "tcp_sendmsg (kernel)"


def test_the_profiled_broker_writes_beside_its_log(tmp_path: Path) -> None:
    broker = ProfiledBroker(tmp_path)

    assert broker.dump.parent == tmp_path
    assert str(broker.dump) in broker.command()
