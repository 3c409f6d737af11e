"""A module that is imported when it is first used."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

from moldau.deferred import deferred_module


def test_a_module_is_imported_with_its_first_attribute(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "counted_once.py").write_text("value = 7\n")
    monkeypatch.syspath_prepend(str(tmp_path))

    module = deferred_module("counted_once")

    assert "counted_once" not in sys.modules
    assert module.value == 7
    assert sys.modules.pop("counted_once").value == 7


def test_a_module_that_is_not_installed_is_reported_at_once() -> None:
    with pytest.raises(ModuleNotFoundError, match="never_installed") as raised:
        deferred_module("never_installed")

    assert raised.value.name == "never_installed"
