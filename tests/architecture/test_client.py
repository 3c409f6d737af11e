"""The client's own limits: imports that point down and do not become more, no cycle of files, names
that classes do not share, and wiring that is done in constructors. How many objects a poll goes
through is in tests/client/consumer/test_hops.py.

A room's blocking clients are in its `sync`; `moldau.client.sync` has only their names.
"""

from __future__ import annotations

import ast
from collections.abc import Iterable, Iterator, Mapping
from typing import Any

import pytest

from tests.architecture.facts import each_file
from tests.architecture.sources import Source, classes, product

CLIENT = "moldau.client"
LAYERS = (
    ("sync",),
    ("admin", "producer", "consumer"),
    ("group", "serdes"),
    ("base",),
    ("settings",),
)
"""The topmost first. Packages of one layer do not import each other."""
ARROWS_MAX = 14
"""How many pairs of packages there are of which one imports the other. May only fall."""
INTERFACES = {"ABC", "Protocol", "NamedTuple", "TypedDict", "Enum", "Exception"}
MAY_BE_BASES = {
    # Keywords of clients, as TypedDicts.
    *("ClientOptions", "RecordOptions"),
    # Bases for classes of users, or one base of several such classes.
    *("RebalanceListener", "ProducerInterceptor", "ConsumerInterceptor", "Forgetful"),
    *("Remade", "SchemaSerializer", "SchemaDeserializer"),
    # The two protocols of a group have the same changes, errors and waits.
    "Member",
    # A consumer whose group assigns tasks: the same consumer with another member.
    "Consumer",
    # The blocking clients are generated from the asyncio clients.
    *("BlockingClient", "AdminCalls", "ConsumerCalls", "GroupMemberCalls", "ProducerCalls"),
    *("SchemaRegistryCalls", "ShareConsumerCalls", "ShareOptions"),
    # One producer for several threads: the same producer with locks; one consumer in a thread.
    *("Accumulator", "Sender", "Producer", "AsyncConsumer", "Batch"),
}
"""Bases that a class of another file of the client may have."""

TWINS = {
    # Public: the blocking client has the names of the asyncio client.
    *("Admin", "Consumer", "Deliveries", "Delivery", "GroupMember", "Producer", "SchemaRegistry"),
    *("Message", "ShareConsumer", "ShareGroupAdmin", "Transaction", "TransactionAdmin"),
    *("QuotaAdmin", "SecurityAdmin", "TokenAdmin"),
}
"""Names that two classes of the client may share."""
SHARED_NAMES_MAX = 0
"""How many other names classes share."""

Graph = Mapping[str, frozenset[str]]


@each_file
def imported(source: Source) -> list[str]:
    """What runs when this module is used: imports for types alone are left out."""
    return list(_imported(source.tree)) if source.is_in(CLIENT) else []


def _imported(tree: ast.AST) -> Iterator[str]:
    for node in ast.iter_child_nodes(tree):
        if isinstance(node, ast.If) and "TYPE_CHECKING" in ast.dump(node.test):
            for each in node.orelse:
                yield from _imported(each)
        elif isinstance(node, ast.ImportFrom) and node.module is not None:
            yield from (f"{node.module}.{name.name}" for name in node.names)
        elif isinstance(node, ast.Import):
            yield from (name.name for name in node.names)
        elif isinstance(node, ast.stmt | ast.excepthandler | ast.match_case | ast.Module):
            yield from _imported(node)


def graph_of(among: Iterable[Source]) -> Graph:
    """Of the client's modules, which import which."""
    own = {each.module or "": each for each in among if each.is_in(CLIENT)}
    own.pop(CLIENT, None)  # it imports nothing but types
    modules = frozenset(own)
    return {
        module: frozenset(name if name in modules else name.rpartition(".")[0] for name in names)
        & modules - {module}
        for module, names in zip(own, imported(own.values()), strict=True)
    }


def cycle_in(graph: Graph) -> list[str]:
    """One of them, or an empty list."""
    done: set[str] = set()

    def look(module: str, above: tuple[str, ...]) -> list[str]:
        if module in above:
            return [*above[above.index(module) :], module]
        if module in done:
            return []
        for each in sorted(graph[module]):
            found = look(each, (*above, module))
            if found:
                return found
        done.add(module)
        return []

    return next((found for each in sorted(graph) if (found := look(each, ()))), [])


def package_of(module: str) -> str:
    return module.split(".")[2]


def upward(graph: Graph) -> list[str]:
    """Imports of a package that is not below."""
    place = {name: number for number, layer in enumerate(LAYERS) for name in layer}
    return [
        f"{module} imports {other}"
        for module, others in sorted(graph.items())
        for other in sorted(others)
        if package_of(module) != package_of(other)
        and place[package_of(other)] <= place[package_of(module)]
    ]


def arrows(graph: Graph) -> set[tuple[str, str]]:
    """Return the pairs of packages of which the first imports the second."""
    return {
        (package_of(module), package_of(other))
        for module, others in graph.items()
        for other in others
        if package_of(module) != package_of(other)
    }


def test_the_clients_imports_point_down() -> None:
    graph = graph_of(product())
    assert len(graph) > 100
    assert not upward(graph)


def test_the_clients_files_have_no_cycle() -> None:
    assert not cycle_in(graph_of(product()))


def test_packages_of_the_client_know_few_others() -> None:
    assert len(arrows(graph_of(product()))) <= ARROWS_MAX


def test_planted_cycles_and_imports_of_types_are_told_apart() -> None:
    one = Source("platform/moldau/client/group/one.py", "from moldau.client.group.two import a")
    kind = "if TYPE_CHECKING:\n    from moldau.client.group.one import b"
    typed = Source("platform/moldau/client/group/two.py", kind)
    used = Source("platform/moldau/client/group/two.py", "def f():\n" + kind.split("\n")[1])
    assert cycle_in(graph_of([one, typed])) == []
    names = [f"{CLIENT}.group.one", f"{CLIENT}.group.two", f"{CLIENT}.group.one"]
    assert cycle_in(graph_of([one, used])) == names


@each_file
def late_wiring(source: Source) -> list[str]:
    """Callbacks of other objects that are assigned, and attributes that may not be there yet."""
    if not source.is_in(CLIENT):
        return []
    return [
        f"{source.path}: {ast.unparse(node)}"
        for node in ast.walk(source.tree)
        if _is_assigned_callback(node) or _asks_for_attribute(node)
    ]


def _is_assigned_callback(node: ast.AST) -> bool:
    """As in `self._cluster.on_update = f`."""
    if not isinstance(node, ast.Assign):
        return False
    return any(
        isinstance(each, ast.Attribute)
        and each.attr.startswith("on_")
        and not (isinstance(each.value, ast.Name) and each.value.id == "self")
        for each in node.targets
    )


def _asks_for_attribute(node: ast.AST) -> bool:
    """As in `"_cluster" in vars(self)`, `hasattr(self, "_cluster")` and `task._exception`."""
    if isinstance(node, ast.Call) and isinstance(node.func, ast.Name):
        return node.func.id in {"vars", "hasattr"} and ast.unparse(node.args[0]) == "self"
    return isinstance(node, ast.Attribute) and node.attr == "_exception"


LATE_WIRING_MAX = 8
"""All in the producer. May only fall."""


def test_the_client_is_wired_in_constructors() -> None:
    found = [each for some in late_wiring(product()) for each in some]
    assert len(found) <= LATE_WIRING_MAX, found
    assert not [each for each in found if "/producer/" not in each], found


@pytest.mark.parametrize(
    ("line", "is_found"),
    [
        ("self._cluster.on_update = f", True),
        ("self.on_update = f", False),
        ('hasattr(self, "_cluster")', True),
        ('"_cluster" in vars(self)', True),
        ('hasattr(value, "hex")', False),
        ("task._exception is None", True),
    ],
)
def test_planted_late_wiring_is_found(line: str, is_found: bool) -> None:
    source = Source("platform/moldau/client/group/one.py", line)
    assert bool(late_wiring([source])[0]) is is_found


def split(among: Iterable[Source]) -> list[str]:
    """Classes with a base of another file of the client: each may be one class in two files."""
    own = classes_of(among)
    local = {
        name: each.module or ""
        for each, defined in own
        for name, bases in defined
        if not is_interface(bases)
    }
    return [
        f"{each.module}.{name} inherits {base}"
        for each, defined in own
        for name, bases in defined
        for base in bases
        if local.get(base, each.module) != each.module and base not in MAY_BE_BASES
    ]


def classes_of(among: Iterable[Source]) -> list[tuple[Source, list[list[Any]]]]:
    """Of each file of the client its classes: the name, and the names of its bases."""
    own = [each for each in among if each.is_in(CLIENT)]
    return list(zip(own, _named_classes(own), strict=True))


@each_file
def _named_classes(source: Source) -> list[list[Any]]:
    return [
        [node.name, [ast.unparse(base).split("[")[0] for base in node.bases]]
        for _, node in (classes(source) if source.is_in(CLIENT) else ())
    ]


def is_interface(bases: list[str]) -> bool:
    return not INTERFACES.isdisjoint(bases) or any(base.endswith("Error") for base in bases)


def test_no_class_of_the_client_is_split_over_two_files() -> None:
    assert not split(list(product()))


def test_a_planted_split_class_is_found() -> None:
    one = Source(
        "platform/moldau/client/group/one.py", "class Part: ...\nclass Face(Protocol): ..."
    )
    two = Source("platform/moldau/client/group/two.py", "class A(Part): ...\nclass B(Face): ...")
    assert split([one, two]) == [f"{CLIENT}.group.two.A inherits Part"]


@pytest.mark.parametrize(
    ("low", "high", "is_found"),
    [
        ("settings", "group", True),
        ("group", "serdes", True),
        ("consumer", "group", False),
        ("settings", "base", True),
    ],
)
def test_a_planted_import_that_points_up_is_found(low: str, high: str, is_found: bool) -> None:
    other = Source(f"platform/moldau/client/{high}/a.py", "x = 1")
    text = f"from moldau.client.{high} import a"
    source = Source(f"platform/moldau/client/{low}/b.py", text)
    assert bool(upward(graph_of([source, other]))) is is_found


def shared_names(among: Iterable[Source]) -> set[str]:
    """The names of two classes of the client, in two files, that are no twins."""
    homes: dict[str, set[str]] = {}
    for each, defined in classes_of(among):
        for name, _ in defined:
            homes.setdefault(name, set()).add(each.path)
    return {name for name, paths in homes.items() if len(paths) > 1} - TWINS


def test_no_two_classes_of_the_client_share_a_name() -> None:
    shared = shared_names(product())
    assert len(shared) <= SHARED_NAMES_MAX, shared


def test_planted_classes_that_share_a_name_are_found() -> None:
    one = Source("platform/moldau/client/group/one.py", "class Place: ...\nclass Admin: ...")
    two = Source("platform/moldau/client/sync/two.py", "class Place: ...\nclass Admin: ...")
    assert shared_names([one, two]) == {"Place"}
