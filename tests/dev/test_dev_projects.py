"""`moldau new` and `moldau dev`: a project is made, tested, run, changed and run again."""

from __future__ import annotations

import html
import re
import subprocess
import sys
import urllib.request
from pathlib import Path

import pytest

from moldau.dev.project import parse_project
from tests.cli.fresh import moldau
from tests.connect.processes import wait_until
from tests.dev.dev_processes import PATIENCE_S, dev, processes_in

pytestmark = pytest.mark.real
LINUX = pytest.mark.skipif(not Path("/proc/self/cwd").exists(), reason="it asks Linux's /proc")


def made(folder: Path, kind: str, name: str) -> Path:
    done = moldau("new", kind, name, directory=folder)
    assert (done.code, done.err) == (0, "")
    return folder / name


def save(file: Path, text: str) -> None:
    """Save it in one step, so that a reader sees the old text or the new one."""
    new = file.with_suffix(".new")
    new.write_text(text)
    new.replace(file)


def page(address: str) -> str:
    with urllib.request.urlopen(address, timeout=60) as answer:  # noqa: S310 - dev's own console
        return str(answer.read().decode())


def consumed(bootstrap: str, topic: str) -> set[str]:
    return set(moldau("consume", topic, "--keys", bootstrap=bootstrap).out.split())


GUIDE = Path(__file__).parents[2] / "docs" / "dev.md"


def blocks(language: str) -> list[str]:
    found = re.findall(rf"```{language}\n(.*?)```", GUIDE.read_text("utf-8"), re.DOTALL)
    return [str(each) for each in found]


def test_the_blocks_of_the_guide_are_true(tmp_path: Path) -> None:
    for block in blocks("toml"):
        assert parse_project(block).title is not None
    made_first, ran, *_ = blocks("console")
    command, _, told = made_first.removeprefix("$ ").partition("\n")
    done = moldau(*command.split()[1:], directory=tmp_path)
    assert (done.code, done.out) == (0, told)
    with dev(tmp_path / "word-count", "--registry", "127.0.0.1:0") as running:
        running.until("streams app")
        assert running.stop() == 0
    words = [line.split()[0] for line in ran.splitlines()[1:]]
    assert words == [line.split()[0] for line in running.told[: len(words)]]


@LINUX
@pytest.mark.deep
def test_a_stream_is_made_tested_run_changed_and_run_again(tmp_path: Path) -> None:
    folder = made(tmp_path, "stream", "word-count")
    subprocess.run(
        [sys.executable, "-m", "pytest", "-q", "-p", "no:randomly"], cwd=folder, check=True
    )
    module = folder / "word_count.py"
    text = module.read_text()
    with dev(folder, "--no-registry") as running:
        bootstrap = running.place("bootstrap")
        assert not any("registry" in line for line in running.told)
        running.until("streams app word-count starts")
        assert moldau("produce", "lines", source="a b a\n", bootstrap=bootstrap).code == 0
        wait_until(lambda: {"a:2", "b:1"} <= consumed(bootstrap, "counts"), "counts", PATIENCE_S)

        shown = page(f"{running.place('console')}/streams/word_count/stores/counts")
        assert "<code>a</code>" in shown

        charts = f"{running.place('console')}/charts/topic/lines"

        def is_drawn() -> bool:
            shown = html.unescape(page(charts))
            titles = set(re.findall("<figcaption>(.*?)<", shown))
            return "the nodes' own numbers" in shown and {"Bytes a second: ", "Lag: "} <= titles

        wait_until(is_drawn, "past", PATIENCE_S)

        save(module, f"{text}\nthis is no Python\n")
        told = running.until("waiting for the next change")
        assert told.startswith("word_count.py, line 15: invalid syntax;")

        save(module, text.replace("str.split", "lambda line: line.upper().split()"))
        running.until("word_count.py changed: starting again")
        running.until("streams app word-count starts")
        moldau("produce", "lines", source="a\n", bootstrap=bootstrap)
        wait_until(lambda: "A:1" in consumed(bootstrap, "counts"), "new counts", PATIENCE_S)
        assert running.stop() == 0
    assert processes_in(folder) == []

    with dev(folder, "--no-registry", "--no-app") as running:
        assert "A:1" in consumed(running.place("bootstrap"), "counts")
        other = moldau("dev", "--port", "0", directory=folder)
        assert (other.code, other.err.count("\n")) == (2, 1)
        assert "another moldau dev runs" in other.err
        assert running.stop() == 0

    with dev(folder, "--no-registry", "--no-app", "--fresh") as running:
        assert "counts" not in moldau("topic", "list", bootstrap=running.place("bootstrap")).out
        assert running.stop() == 0


@pytest.mark.deep
@LINUX
def test_a_pipeline_runs_in_dev(tmp_path: Path) -> None:
    folder = made(tmp_path, "pipeline", "words")
    with dev(folder, "--no-registry") as running:
        running.until("pipeline words runs")
        counts = folder / "counts.txt"
        wait_until(lambda: counts.exists() and "be 2" in counts.read_text(), "counts", PATIENCE_S)
        parts = f"{running.place('console')}/pipelines/pipeline"
        wait_until(lambda: "4 of 4</b> parts run" in page(parts), "all parts run", PATIENCE_S)
        assert "/groups/" in page(parts)
        status = moldau("pipeline", "status", directory=folder)
        assert (status.code, status.err) == (0, ""), status
        assert status.out.count("RUNNING") == 4
        assert running.stop() == 0
    stopped = moldau("pipeline", "status", directory=folder)
    assert (stopped.code, stopped.out.count("MISSING")) == (1, 3), stopped


@pytest.mark.parametrize(
    ("table", "told"),
    [
        ("ap = 'x:app'", "has no key ap"),
        ("app = 'x:app'\npipeline = 'p.yaml'", "takes one of app and pipeline"),
        ("app = 7", "app takes a text"),
        ("topics = {lines = 0}", "lines takes a number of partitions"),
        ("connectors = 'one.json'", "connectors takes a list"),
        ("app = ", "pyproject.toml: "),
    ],
)
def test_a_mistake_in_the_table_is_told_in_a_line(table: str, told: str, tmp_path: Path) -> None:
    (tmp_path / "pyproject.toml").write_text(f"[tool.moldau.dev]\n{table}\n")
    done = moldau("dev", directory=tmp_path)
    assert (done.code, done.out, done.err.count("\n")) == (2, "", 1)
    assert told in done.err


@pytest.mark.parametrize(
    "name", ["Words", "a b", "-x", "json", "class", "moldau", "x" * 65, "../x"]
)
def test_a_name_that_python_cannot_import_is_refused(name: str, tmp_path: Path) -> None:
    done = moldau("new", "stream", "--", name, directory=tmp_path)
    assert (done.code, list(tmp_path.iterdir())) == (2, []), done


def test_a_folder_with_files_stays_as_it_is(tmp_path: Path) -> None:
    kept = tmp_path / "words" / "mine.txt"
    kept.parent.mkdir()
    kept.write_text("mine")
    done = moldau("new", "stream", "words", directory=tmp_path)
    assert done.code == 2
    assert "not empty" in done.err
    assert list(kept.parent.iterdir()) == [kept]
