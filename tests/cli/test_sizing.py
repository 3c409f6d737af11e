"""`moldau sizing` as people and programs call it."""

from __future__ import annotations

import json

from moldau.operations.sizing import MEASURED, Load, estimate
from tests.architecture.sources import ROOT
from tests.cli.shell import moldau


def test_the_page_shows_what_the_command_says() -> None:
    page = (ROOT / "docs" / "sizing.md").read_text(encoding="utf-8")
    command, shown = page.split("```\n")[1:4:2]
    done = moldau(*command.split()[1:])
    assert done.out == shown


def test_the_table_is_that_of_the_estimate() -> None:
    done = moldau("sizing", "--in", "50", "--out", "100", "--retention", "1d")
    assert done.code == 0
    rows = dict(line.rsplit("  ", 1) for line in done.out.splitlines())
    shown = {name.strip(): size.strip() for name, size in rows.items()}
    found = estimate(Load(50, 100, retention_s=86_400))
    assert shown["nodes"] == str(found.nodes)
    assert shown["disk of a node"] == f"{found.disk_gb:,.0f} GB"


def test_json_has_all_numbers_and_what_was_measured() -> None:
    words = ("sizing", "--in", "800", "--record-size", "200", "--tls", "--codec", "lz4")
    done = moldau(*words, "--cores", "8", "--measured", "--json")
    document = json.loads(done.out)
    found = estimate(Load(800, 800, record_bytes=200, has_tls=True, codec="lz4", cores=8))
    assert (document["nodes"], document["shards"]) == (found.nodes, found.shards)
    assert document["notes"] == list(found.notes)
    assert len(document["measured"]) == len(MEASURED)


def test_measured_names_the_tables() -> None:
    done = moldau("sizing", "--in", "1", "--measured")
    assert "produce 1 KB zstd, Java: broker CPU" in done.out


def test_a_wrong_number_is_refused_with_its_range() -> None:
    done = moldau("sizing", "--in", "fast")
    assert done.code == 2
    assert "'fast' is no number from 0 to" in done.err
