"""The Python transform calls the functions that the worker allows, and no others."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from moldau.connect.api import SourceRecord
from moldau.connect.errors import DataError
from moldau.connect.transforms.python import Python, allowed_modules
from moldau.errors import ConfigError

HERE = "tests.connect.transforms.functions"


@pytest.fixture
def allowed() -> Iterator[None]:
    with allowed_modules({"transforms.python.modules": "elsewhere, tests.connect.transforms"}):
        yield


def made(function: str, **arguments: str) -> Python:
    transform = Python()
    given = {f"arg.{name}": text for name, text in arguments.items()}
    transform.configure({"function": function, **given})
    return transform


@pytest.mark.usefixtures("allowed")
def test_the_function_changes_or_drops_the_record() -> None:
    record = SourceRecord({}, {}, "t", value="x")

    changed = made(f"{HERE}:shout", mark="?").apply(record)

    assert changed is not None
    assert changed.value == "x?"
    assert made(f"{HERE}:shout").apply(record.replace(value=None)) is None


def test_without_the_workers_word_no_module_is_allowed() -> None:
    with pytest.raises(ConfigError, match=r"add it to transforms\.python\.modules"):
        made(f"{HERE}:shout")


@pytest.mark.usefixtures("allowed")
@pytest.mark.parametrize(
    ("function", "reason"),
    [
        ("os:system", "does not allow the module 'os'"),
        ("tests.connect.transforms_of_others:x", "does not allow the module"),
        (HERE, "is not of the form module:function"),
        (f"{HERE}:a.b", "is not of the form module:function"),
        (f"{HERE}:missing", "cannot be loaded"),
        ("tests.connect.transforms.nothing:x", "cannot be loaded"),
        (f"{HERE}:NUMBER", "is no function"),
    ],
)
def test_what_cannot_be_called_is_refused(function: str, reason: str) -> None:
    with pytest.raises(ConfigError, match=reason):
        made(function)


@pytest.mark.usefixtures("allowed")
def test_a_function_must_give_a_record() -> None:
    with pytest.raises(DataError, match="must give a SourceRecord or None, not a str"):
        made(f"{HERE}:wrong").apply(SourceRecord({}, {}, "t"))
