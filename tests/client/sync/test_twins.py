"""Every public method of the asyncio clients has its blocking twin, with the same parameters."""

from __future__ import annotations

import ast
import inspect
from typing import Any

import pytest

import moldau.client
import moldau.client.sync
from moldau.client.sync import (
    Admin,
    Consumer,
    GroupMember,
    Producer,
    SchemaRegistry,
    ShareConsumer,
)
from tests.client.sync.twins import (
    RENAMED,
    TWINS,
    Twin,
    names_path,
    public_methods,
    render,
    render_names,
)

CLIENTS: list[type[Any]] = [Admin, Consumer, GroupMember, Producer, SchemaRegistry, ShareConsumer]
SYNC = {each.__name__: each for each in CLIENTS}

# What waits without await has another type than the coroutine's.
RETURNS = {
    ("Consumer", "batches"): "Iterator[PartitionRecords[K, V]]",
    ("Consumer", "commit_soon"): "Future[None]",
    ("SchemaRegistry", "asynchronous"): "AsyncSchemaRegistry",
}
NOT_HERE = {"runtime"}  # the loop's thread has its own


@pytest.fixture(params=TWINS, ids=lambda twin: twin.name)
def twin(request: pytest.FixtureRequest) -> Twin:
    assert isinstance(request.param, Twin)
    return request.param


def shape(function: Any) -> list[tuple[str, str, object, object]]:
    """Names, kinds, defaults and types of the parameters, in their order."""
    return [
        (each.name, each.kind.name, each.default, each.annotation)
        for each in inspect.signature(function).parameters.values()
        if each.name not in NOT_HERE
    ]


def test_what_is_generated_is_of_todays_source(twin: Twin) -> None:
    assert twin.path.read_text(encoding="utf-8") == render(twin), (
        "an asyncio client has changed: python -m tests.client.sync.twins"
    )


def test_every_public_method_has_a_twin_with_the_same_parameters(twin: Twin) -> None:
    blocking = SYNC[twin.name]
    seen = 0
    for method in public_methods(twin.client):
        mine = inspect.getattr_static(blocking, RENAMED.get(method.name, method.name))
        theirs = inspect.getattr_static(twin.client, method.name)
        assert isinstance(mine, property) == isinstance(theirs, property), method.name
        if isinstance(mine, property):
            mine, theirs = mine.fget, theirs.fget
        assert shape(mine) == shape(theirs), method.name
        assert not inspect.iscoroutinefunction(mine), method.name
        returns = inspect.signature(mine).return_annotation
        expected = inspect.signature(theirs).return_annotation
        assert returns == RETURNS.get((twin.name, method.name), expected), method.name
        seen += 1
    assert seen >= 5


def test_every_generated_method_has_the_documentation_of_its_twin(twin: Twin) -> None:
    for method in public_methods(twin.client):
        mine = inspect.getattr_static(SYNC[twin.name], RENAMED.get(method.name, method.name))
        theirs = inspect.getattr_static(twin.client, method.name)
        if method.name not in twin.by_hand:
            assert theirs.__doc__
            assert mine.__doc__ == theirs.__doc__, method.name


def test_they_are_made_with_the_same_parameters(twin: Twin) -> None:
    assert shape(SYNC[twin.name].__init__) == shape(twin.client.__init__)


def test_what_is_written_by_hand_is_there_and_is_not_generated_too(twin: Twin) -> None:
    blocking = SYNC[twin.name]
    names = {method.name for method in public_methods(twin.client)}
    assert twin.by_hand <= names
    tree = ast.parse(twin.path.read_text(encoding="utf-8"))
    generated = {each.name for each in ast.walk(tree) if isinstance(each, ast.FunctionDef)}
    for name in twin.by_hand:
        assert RENAMED.get(name, name) not in generated
        mine = inspect.getattr_static(blocking, RENAMED.get(name, name))
        assert callable(mine) or isinstance(mine, property)


def test_everything_can_be_had_from_here_that_can_be_had_from_the_asyncio_client() -> None:
    assert names_path().read_text(encoding="utf-8") == render_names(), (
        "moldau.client has other names now: python -m tests.client.sync.twins"
    )
    assert set(moldau.client.__all__) <= set(moldau.client.sync.__all__)
    for name in moldau.client.sync.__all__:
        assert getattr(moldau.client.sync, name) is not None
    assert moldau.client.sync.NewTopic is moldau.client.NewTopic
    assert moldau.client.sync.Producer.__module__ == "moldau.client.producer.sync.producer"
    with pytest.raises(AttributeError, match="no attribute 'Nothing'"):
        _ = moldau.client.sync.Nothing
