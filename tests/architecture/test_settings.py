"""Every setting is documented: in its row, and in the reference under docs/.

Tables are found where modules of the product make one at their top level, so a new table needs no
registration here.
"""

from __future__ import annotations

import importlib
from collections.abc import Iterable, Iterator
from types import ModuleType

import pytest

from moldau.config import INT, Setting, SettingTable
from tests.architecture.allowed import Found, check
from tests.architecture.sources import product, sources


def tables(modules: Iterable[ModuleType]) -> Iterator[tuple[str, SettingTable]]:
    """Each table at the top level of a module, with where it is."""
    for module in modules:
        for name, value in vars(module).items():
            if isinstance(value, SettingTable):
                yield f"{module.__name__}.{name}", value


def undocumented(among: Iterable[tuple[str, SettingTable]], reference: str) -> Found:
    """Settings whose row says too little, or whose name the reference lacks."""
    found = {}
    for where, table in among:
        for row in table:
            if not row.doc.rstrip().endswith(".") or not row.doc.isascii():
                found[f"{where}: {row.name}"] = "its doc is no ASCII sentence with a full stop"
            elif f"`{row.name}`" not in reference:
                found[f"{where}: {row.name}"] = "no page under docs/ tells about it"
    return found


def modules_with_tables() -> Iterator[ModuleType]:
    for source in product():
        if source.module and "SettingTable(" in source.text and not source.is_in("moldau.config"):
            yield importlib.import_module(source.module)


def test_every_setting_is_documented() -> None:
    pages = (page.text for page in sources(".md") if page.path.startswith("docs/"))

    check("settings", undocumented(tables(modules_with_tables()), "\n".join(pages)))


@pytest.mark.parametrize(
    ("doc", "reference", "is_found"),
    [
        ("How long a segment may grow.", "| `log.segment.bytes` | int |", False),
        ("How long a segment may grow.", "| `log.segment.ms` | int |", True),
        ("segment size", "| `log.segment.bytes` | int |", True),
    ],
)
def test_a_planted_undocumented_setting_is_found(doc: str, reference: str, is_found: bool) -> None:
    module = ModuleType("planted")
    row = Setting("log.segment.bytes", INT, 1024, doc)
    module.BROKER = SettingTable([row])  # type: ignore[attr-defined]

    found = undocumented(tables([module]), reference)

    assert set(found) == ({"planted.BROKER: log.segment.bytes"} if is_found else set())
