"""The blocking twins of the asyncio clients' methods, made of their source.

    python -m tests.client.sync.twins           # writes moldau/client/*/sync/*_calls.py anew

Each public method and property of an asyncio client gets a method of the same name, parameters and
defaults that hands the call to the loop and waits. `BlockingClient` gives it the documentation of
the asyncio method. What waits differently is written by hand in
`moldau/client/<room>/sync/<client>.py` and listed here; a test holds all of it together: nothing is
missing, nothing is stale, nothing differs.
"""

from __future__ import annotations

import ast
import inspect
import re
import subprocess
import sys
import textwrap
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from types import ModuleType
from typing import Any

import moldau.client
from moldau.client.admin.admin import Admin
from moldau.client.consumer.consumer import Consumer
from moldau.client.consumer.share.consumer import ShareConsumer
from moldau.client.group.group_member import GroupMember
from moldau.client.producer.producer import Producer
from moldau.client.serdes import SchemaRegistry

CLIENT = Path(__file__).parents[3] / "platform" / "moldau" / "client"
FOLDER = CLIENT / "sync"

# How names of the asyncio world are called in the other.
RENAMED = {"aclose": "close"}
MODULES = {
    "GroupMember": "group_member",
    "SchemaRegistry": "schema_registry",
    "ShareConsumer": "share_consumer",
}


@dataclass(frozen=True)
class Twin:
    """One asyncio client, and which of its methods are not made by rule."""

    client: type[Any]
    by_hand: frozenset[str]

    @property
    def name(self) -> str:
        return self.client.__name__

    @property
    def path(self) -> Path:
        room = self.client.__module__.split(".")[2]
        return CLIENT / room / "sync" / f"{MODULES.get(self.name, self.name.lower())}_calls.py"


TWINS = (
    Twin(Admin, frozenset({"aclose", "start"})),
    Twin(
        Consumer,
        frozenset(
            {
                *("aclose", "batches", "commit", "commit_soon", "poll", "start", "subscribe"),
                *("getmany", "getone", "poll_batches", "unsubscribe"),
            }
        ),
    ),
    Twin(GroupMember, frozenset({"aclose", "start"})),
    Twin(
        Producer,
        frozenset(
            {
                *("aclose", "send", "send_and_wait", "send_batch", "send_many", "start"),
                *("run_transaction", "transaction"),
            }
        ),
    ),
    Twin(SchemaRegistry, frozenset({"aclose", "asynchronous"})),
    Twin(ShareConsumer, frozenset({"aclose", "map", "poll", "start"})),
)


@dataclass(frozen=True)
class Method:
    """A public method or property, and the module that it was written in."""

    name: str
    node: ast.FunctionDef | ast.AsyncFunctionDef
    module: ModuleType

    @property
    def is_property(self) -> bool:
        return any(ast.unparse(each) == "property" for each in self.node.decorator_list)


def public_methods(client: type[Any]) -> Iterator[Method]:
    """In the order of the source, the bases' first."""
    seen = set()
    for owner in reversed(client.__mro__):
        if not owner.__module__.startswith("moldau."):
            continue  # `object`, and `Generic`, which is of C from Python 3.12 on
        module = sys.modules[owner.__module__]
        tree = ast.parse(textwrap.dedent(inspect.getsource(owner)))
        assert isinstance(tree.body[0], ast.ClassDef)
        for node in tree.body[0].body:
            if not isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
                continue
            if node.name.startswith("_") or node.name in seen:
                continue
            seen.add(node.name)
            yield Method(node.name, node, module)


def render(twin: Twin) -> str:
    """The whole module."""
    methods = [each for each in public_methods(twin.client) if each.name not in twin.by_hand]
    imports: dict[str, set[str]] = {
        twin.client.__module__: {f"{twin.name} as Async{twin.name}"},
        "moldau.client.base.blocking": {"BlockingClient"},
    }
    body = [_method(each, imports) for each in methods]
    lines = [f"from {module} import {name}" for module in imports for name in imports[module]]
    text = f'''"""`{twin.name}`'s calls that wait, made from the asyncio client (tests/client/sync).

`python -m tests.client.sync.twins` makes this module anew.
"""

from __future__ import annotations

{chr(10).join(lines)}


class {twin.name}Calls(BlockingClient, twin_of=Async{twin.name}):
    """Each hands its call to the loop and waits for the answer. Their texts are those of the
    asyncio client."""

    _client: Async{twin.name}

{textwrap.indent(chr(10).join(body), "    ")}
'''
    return tidy(text)


def _method(method: Method, imports: dict[str, set[str]]) -> str:
    node = method.node
    for each in (*node.args.defaults, *node.args.kw_defaults, *_annotations(node)):
        _import_names(each, method.module, imports)
    head = f"def {method.name}({_arguments(method)}) -> {ast.unparse(_returns(node))}:"
    returns = "" if ast.unparse(_returns(node)) == "None" else "return "
    if method.is_property:
        call = f"{returns}self._run(lambda: self._client.{method.name})"
        return f"@property\n{head}\n    {call}\n"
    target = f"self._client.{method.name}({_passed_on(node.args)})"
    if isinstance(node, ast.AsyncFunctionDef):
        call = f"{returns}self._call({target})"
    else:
        call = f"{returns}self._run(lambda: {target})"
    return f"{head}\n    {call}\n"


def _returns(node: ast.FunctionDef | ast.AsyncFunctionDef) -> ast.expr:
    return node.returns or ast.Constant(None)


def _annotations(node: ast.FunctionDef | ast.AsyncFunctionDef) -> Iterator[ast.expr]:
    given = node.args
    for each in (*given.posonlyargs, *given.args, given.vararg, *given.kwonlyargs, given.kwarg):
        if each is not None and each.annotation is not None:
            yield each.annotation
    if node.returns is not None:
        yield node.returns


def _arguments(method: Method) -> str:
    """As in the source, but a private constant as its value."""
    private = {
        each.id
        for default in (*method.node.args.defaults, *method.node.args.kw_defaults)
        if default is not None
        for each in ast.walk(default)
        if isinstance(each, ast.Name) and each.id.startswith("_")
    }
    text = ast.unparse(method.node.args)
    for name in private:
        text = text.replace(f"={name}", f"={vars(method.module)[name]!r}")
    return text


def _passed_on(given: ast.arguments) -> str:
    names = [each.arg for each in (*given.posonlyargs, *given.args)][1:]
    names += [f"*{given.vararg.arg}"] if given.vararg else []
    names += [f"{each.arg}={each.arg}" for each in given.kwonlyargs]
    names += [f"**{given.kwarg.arg}"] if given.kwarg else []
    return ", ".join(names)


def _import_names(node: ast.expr | None, module: ModuleType, imports: dict[str, set[str]]) -> None:
    """Notes where each name comes from that the expression uses."""
    if node is None:
        return
    for each in ast.walk(node):
        if not isinstance(each, ast.Name) or each.id.startswith("_"):
            continue
        home = _home(each.id, module)
        if home is not None:
            imports.setdefault(home, set()).add(each.id)


def _home(name: str, module: ModuleType) -> str | None:
    """The module to import a name from; None for a builtin."""
    for node in ast.walk(ast.parse(inspect.getsource(module))):
        if isinstance(node, ast.ImportFrom) and name in {
            each.asname or each.name for each in node.names
        }:
            return node.module
    return module.__name__ if name in vars(module) else None


_OWN = {
    *("Admin", "Consumer", "Deliveries", "Delivery", "GroupMember", "Producer"),
    *("Message", "ShareConsumer", "ShareGroupAdmin", "Transaction", "TransactionAdmin"),
    *("QuotaAdmin", "SecurityAdmin", "TokenAdmin"),
}


def names_path() -> Path:
    """The package's own module: it says which names can be had from it."""
    return FOLDER / "__init__.py"


def as_ruff(name: str) -> tuple[bool, bool, str]:
    """The order of `__all__`: constants, then classes, then functions."""
    return len(name) == 1 or not name.isupper(), name.islower(), name


def render_names() -> str:
    """`moldau.client.sync` with today's names of `moldau.client` in its two lists."""
    others = sorted(set(moldau.client.__all__) - _OWN)
    text = names_path().read_text(encoding="utf-8")
    imported = "".join(f"        {name},\n" for name in others)
    text = re.sub(
        r"(from moldau\.client import \(\n).*?(    \)\n)",
        lambda found: found[1] + imported + found[2],
        text,
        count=1,
        flags=re.DOTALL,
    )
    homes = re.findall(r'^    "(\w+)": "moldau', text, re.MULTILINE)
    exported = "".join(f'    "{name}",\n' for name in sorted({*others, *homes}, key=as_ruff))
    text = re.sub(
        r"(__all__ = \[\n).*?(\]\n)",
        lambda found: found[1] + exported + found[2],
        text,
        flags=re.DOTALL,
    )
    return tidy(text)


def tidy(text: str) -> str:
    """Formatted, with the imports in order that are needed."""
    for arguments in (["check", "--quiet", "--select=I,F401", "--fix"], ["format", "--quiet"]):
        done = subprocess.run(  # noqa: S603
            [
                sys.executable,
                "-m",
                "ruff",
                *arguments,
                "--stdin-filename",
                str(FOLDER / "x.py"),
                "-",
            ],
            input=text,
            capture_output=True,
            text=True,
            check=False,
        )
        assert not done.returncode, done.stderr
        text = done.stdout
    return text


def write() -> None:
    """Makes all of them anew."""
    for twin in TWINS:
        twin.path.write_text(render(twin), encoding="utf-8")
    names_path().write_text(render_names(), encoding="utf-8")


if __name__ == "__main__":
    write()
