"""The docs site: each page has its place, no link is dead, its tables are those of the code."""

from __future__ import annotations

import importlib.util
import json
import re
from pathlib import Path

import pytest

from moldau.cli.application import GROUP
from moldau.plugins import installed_plugins
from release import docs
from release.comparison import bench_tables, goals, render_goals
from release.docs import SiteFailed, build_site
from release.pages import PAGES
from release.site import RESULTS, extra_pages, for_site
from tests.architecture.sources import ROOT

needs_mkdocs = pytest.mark.skipif(
    importlib.util.find_spec("material") is None, reason="needs mkdocs-material: make docs"
)
BENCH = """\
- machine: AMD EPYC, 2 cores, CPython 3.11.7, Linux 6.18, 2026-11-29

## produce

records a second, higher is better; median of 3 interleaved rounds.

- met: `moldau` / `Kafka` = 1.233, goal >= 1.2
- MISSED: `moldau` / `Kafka` = 0.597, goal <= 0.5
  Java takes both cores.
- met: `moldau --version` = 88.47, goal <= 250
"""


def test_every_command_has_a_section() -> None:
    page = PAGES["commands.md"]()
    for name in installed_plugins().named(GROUP):
        assert f"\n## moldau {name}\n" in page
    assert "\n### moldau topic create\n" in page
    assert "| `-p, --partitions PARTITIONS` |" in page


def test_every_route_has_a_line() -> None:
    page = PAGES["rest.md"]()
    assert "| `PUT /connector-plugins/{plugin}/config/validate` |" in page
    assert "| `POST /subjects/{subject}/versions` |" in page


def test_the_comparison_shows_what_was_missed_too() -> None:
    table = render_goals(goals("broker", BENCH)).splitlines()
    assert table[2:] == [
        "| [broker](bench/broker.md): produce | higher | moldau | Kafka | 1.233 | >= 1.2 | met "
        "| 2026-11-29 |",
        "| [broker](bench/broker.md): produce | higher | moldau | Kafka | 0.597 | <= 0.5 | MISSED "
        "| 2026-11-29 |",
    ]


def test_every_goal_of_the_benches_is_in_the_comparison() -> None:
    written = "\n".join(path.read_text(encoding="utf-8") for path in RESULTS.glob("*.md"))
    ratios = re.findall(r"^- (?:met|MISSED): `[^`]+` / `", written, re.MULTILINE)
    assert len(bench_tables(RESULTS)) == len(ratios)
    text = (ROOT / "docs" / "comparison.md").read_text(encoding="utf-8")
    assert for_site("comparison.md", text).count("| MISSED |") > 0
    assert [each for each in bench_tables(RESULTS) if not each.better or not each.day] == []


def test_pages_from_elsewhere_lead_to_pages_of_the_site() -> None:
    pages = extra_pages()
    assert {"changelog.md", "commands.md", "rest.md", "bench/broker.md"} <= set(pages)
    assert not [name for name, text in pages.items() if "](docs/" in text or "](results/" in text]
    linked = for_site("x.md", "see [it](../bench/results/console.md)")
    assert linked == "see [it](bench/console.md)"


@needs_mkdocs
@pytest.mark.deep
@pytest.mark.slow
def test_the_site_has_no_dead_link_and_keeps_older_versions(tmp_path: Path) -> None:
    (tmp_path / "0.0.9").mkdir()
    (tmp_path / "0.0.9" / "index.html").write_text("the old one")

    first = build_site(tmp_path, "0.1.0")

    assert "client.html" in first.read_text(encoding="utf-8")
    versions = json.loads((tmp_path / "versions.json").read_text())
    assert [each["version"] for each in versions] == ["0.1.0", "0.0.9"]
    assert "0.1.0/index.html" in (tmp_path / "index.html").read_text()
    found = json.loads((tmp_path / "0.1.0" / "search" / "search_index.json").read_text())
    places = {each["location"] for each in found["docs"]}
    assert {"commands.html#moldau-topic-create", "rest.html", "bench/broker.html"} <= places


@needs_mkdocs
def test_a_planted_dead_link_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "docs").mkdir()
    (tmp_path / "docs" / "index.md").write_text("see [it](nowhere.md) and [that](#not-there)")
    settings = "site_name: x\nvalidation: {anchors: warn}\n"
    (tmp_path / "mkdocs.yml").write_text(settings)
    monkeypatch.setattr(docs, "ROOT", tmp_path)

    with pytest.raises(SiteFailed, match=r"(?s)nowhere\.md.*not-there|not-there.*nowhere\.md"):
        build_site(tmp_path / "out", "1")
