"""The programs of a guide: what stands in its blocks of Python, run in their order."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Final

from moldau.client.sync import Admin
from tests.peers.eventually import eventually

DOCS: Final = Path(__file__).parents[2] / "docs"


def text_of(guide: str) -> str:
    return (DOCS / guide).read_text(encoding="utf-8")


def programs(guide: str) -> list[str]:
    return re.findall(r"```python\n(.*?)```", text_of(guide), re.DOTALL)


def files_of(guide: str) -> dict[str, str]:
    """The files that a reader of the guide writes: each block behind a line that ends in its name,
    as "`shop.py`:"."""
    named = r"`([\w./-]+)`:\n\n```\w*\n(.*?)```"
    return dict(re.findall(named, text_of(guide), re.DOTALL))


def commands_of(guide: str) -> list[str]:
    """The lines of its blocks of `sh`."""
    blocks = re.findall(r"^```sh\n(.*?)^```", text_of(guide), re.DOTALL | re.MULTILINE)
    return [line for block in blocks for line in block.splitlines()]


def run_programs(guide: str, addresses: Mapping[str, str]) -> None:
    """Each by itself; what it says is an address is replaced by what runs there now."""
    for number, program in enumerate(programs(guide)):
        whole = program
        for said, real in addresses.items():
            whole = whole.replace(said, real)
        exec(compile(whole, f"{guide}, program {number + 1}", "exec"), {})  # noqa: S102


def forget_topics(bootstrap_servers: str, names: Iterable[str]) -> None:
    """Deletes what another guide has left; records would be lost that a broker takes before it
    knows of the deletion."""
    with Admin(bootstrap_servers=bootstrap_servers) as admin:

        def left() -> set[str]:
            return {each.name for each in admin.list_topics()}.intersection(names)

        admin.delete_topics(left())
        eventually(lambda: not left())
