"""docs/streams-settings.md, made of the rows; `python -m tests.streams.worker.page` writes it."""

from __future__ import annotations

from pathlib import Path

from moldau.config import render_reference
from moldau.streams.worker.settings import STREAMS_SETTINGS

PAGE = Path(__file__).parents[3] / "docs" / "streams-settings.md"

_HEAD = """\
# Settings of a Streams app

They have Kafka Streams' names. Give them to `moldau streams run` with `--set NAME=VALUE` or in the
file of `--command-config`, and to `app.run` as a mapping. Any other name is one of the
[clients' settings](client-settings.md) and goes to all clients of the app that know it. With a
prefix it goes to one of them and wins: `consumer.`, `restore.consumer.`, `global.consumer.`,
`producer.`, `admin.`.

This page is made of the rows that the program reads; `python -m tests.streams.worker.page` makes
it anew.

"""


def render() -> str:
    """The whole page."""
    table = render_reference(STREAMS_SETTINGS, "The app", in_environment=False)
    return _HEAD + table.replace("# The app", "## The app", 1).replace("\n## `", "\n### `")


if __name__ == "__main__":
    PAGE.write_text(render())
