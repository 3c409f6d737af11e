"""Every `moldau ...` command line in the documents and examples is one that `moldau` takes."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from typing import Final

import pytest

from tests.architecture.sources import Source, sources
from tests.cli.documented import Line, documented, fault, mentioned

PAGES: Final = ("README.md", "ARCHITECTURE.md", "CONTRIBUTING.md", "CHANGELOG.md")
OF_THE_READER: Final = {("docs/plugins.md", "greet")}
"""Commands that a page shows how to write."""


def pages() -> Iterator[tuple[Source, list[Line]]]:
    """Each page with its commands."""
    for source in sources(".md"):
        if source.path in PAGES or source.path.startswith(("docs/", "examples/")):
            yield source, list(documented(source.text))


def faults(source: Source, among: Iterable[Line]) -> list[str]:
    """`document:line: command: what is wrong` for each."""
    return [
        f"{source.path}:{line.number}: moldau {' '.join(line.words)}: {found}"
        for line in among
        if (source.path, line.words[0]) not in OF_THE_READER and (found := fault(line)) is not None
    ]


def test_every_command_of_the_pages_parses() -> None:
    found = [each for page, lines in pages() for each in faults(page, lines)]

    assert found == [], "\n".join(found)


def test_every_command_that_an_example_mentions_exists() -> None:
    examples = [each for each in sources(".py", ".yaml") if each.path.startswith("examples/")]
    lines = [(each, list(mentioned(each.text))) for each in examples]

    assert sum(len(found) for _, found in lines) > 3
    assert [each for source, found in lines for each in faults(source, found)] == []


def test_the_pages_have_many_commands() -> None:
    """So that a finder that finds little is seen."""
    lines = [line for _, found in pages() for line in found]

    assert sum(line.is_whole for line in lines) > 200
    assert sum(not line.is_whole for line in lines) > 200


@pytest.mark.parametrize(
    ("text", "told"),
    [
        ("```\nmoldau topic create orders --partitons 3\n```", "x.md:2: .*--partitons"),
        ("```sh\nmake venv\nmoldau topics list\n```", "x.md:3: .*no command topics"),
        ("```\n$ moldau topic make a\nmoldau dev is up\n```", "x.md:2: .*invalid choice: 'make'"),
        ("```\necho a | moldau produce\n```", "x.md:2: .*required: TOPIC"),
        ("```\nA=b moldau dev --frsh > log\n```", "x.md:2: .*--frsh"),
        ("```\nmoldau topic list \\\n  --json\nmoldau topic list --jsn\n```", "x.md:4: .*--jsn"),
        ('```\neval "$(moldau completion tcsh)"\n```', "x.md:2: .*tcsh"),
        ("```\ndocker run --rm moldau versoin\n```", "x.md:2: .*no command versoin"),
        ("text\n\n    moldau share peek mailer --cont 5\n", "x.md:3: .*--cont"),
        ("one\ntwo `moldau topic list --jsn`", "x.md:2: .*no --jsn"),
        ("`moldau group lst`", "x.md:1: .*no action lst"),
        ("`moldau consume a | moldau prduce b`", "x.md:1: .*no command prduce"),
        ("`moldau -b a:1 topic\ncreate --partitons 3`", "x.md:1: .*no --partitons"),
    ],
)
def test_a_planted_wrong_command_is_told_with_its_line(text: str, told: str) -> None:
    (found,) = faults(Source("x.md", text), documented(text))

    assert re.match(told, found), found


@pytest.mark.parametrize(
    "text",
    [
        "```console\n$ moldau dev\nmoldau dev is up\n```",
        "```\nmoldau -b a:1 topic list   # 'all of them\n```",
        "```\nmoldau consume a --where 'value.amount > 10' > found\n```",
        "```python\nmoldau = 3\n```",
        "`moldau group` shows, and `moldau COMMAND --help`; moldau prints `moldau help`",
    ],
)
def test_output_comments_and_placeholders_are_no_faults(text: str) -> None:
    assert faults(Source("x.md", text), documented(text)) == []
