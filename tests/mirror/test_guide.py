"""Every block of docs/mirror.md is true."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from pathlib import Path

import pytest

from moldau.connect.plugins import Catalogue, validate
from moldau.testing import SyncEmbeddedBroker
from tests.mirror.running import create, fill, mirrored, read_some

GUIDE = (Path(__file__).parents[2] / "docs" / "mirror.md").read_text(encoding="utf-8")
PROGRESS = re.compile(r" \([\d,]+/s\)(?=, [\d,]+ to go$)")


def blocks(language: str) -> list[str]:
    found = re.findall(r"^```(\w*)\n(.*?)^```$", GUIDE, re.DOTALL | re.MULTILINE)
    return [text for name, text in found if name == language]


def without_rates(output: str) -> list[str]:
    """The lines of an output; of the lines of progress only the last one, without its rate."""
    lines = output.splitlines()
    progress = [at for at, line in enumerate(lines) if PROGRESS.search(line)]
    return [PROGRESS.sub("", line) for at, line in enumerate(lines) if at not in progress[:-1]]


@pytest.fixture
def clusters() -> Iterator[tuple[str, str]]:
    """The addresses of two clusters; the first one has what the page begins with."""
    with SyncEmbeddedBroker() as first, SyncEmbeddedBroker() as second:
        create(first.bootstrap_servers, "orders", 2, retention_ms="-1")
        fill(first.bootstrap_servers, "orders", range(1000))
        read_some(first.bootstrap_servers, "orders", "billing", 500)
        yield first.bootstrap_servers, second.bootstrap_servers


@pytest.mark.real
def test_the_commands_say_what_the_page_says(clusters: tuple[str, str], tmp_path: Path) -> None:
    def placed(text: str) -> str:
        source, target = clusters
        return text.replace("localhost:9092", source).replace("localhost:9192", target)

    (tmp_path / "mm2.properties").write_text(placed(blocks("properties")[0]))
    transcripts = blocks("")
    assert len(transcripts) == 4

    for transcript in transcripts:
        command, _, output = transcript.removeprefix("$ moldau mirror ").partition("\n")
        done = mirrored(tmp_path, *placed(command).replace("'", "").split())
        assert (done.returncode, done.stderr) == (0, "")
        assert without_rates(done.stdout) == without_rates(output)


def test_the_configs_of_the_page_are_valid_and_every_setting_is_known() -> None:
    catalogue = Catalogue.installed()
    configs = [json.loads(block) for block in blocks("json")]
    assert len(configs) == 3

    for each in configs:
        infos = validate(catalogue, {"name": each["name"], **each["config"]})
        assert not infos.error_count
        assert not infos.warnings
