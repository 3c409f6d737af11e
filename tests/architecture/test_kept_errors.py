"""An error that is kept has no frames: `without_frames` of moldau.errors drops them.

A traceback holds the frames of all calls from the `except` down to the `raise`, and a frame holds
its local variables: the bytes of a request, what was decompressed. An error in a local variable of
the function that caught it is a cycle as well, which the collector alone frees; servers run it
rarely. A stored error that is raised again and again gets one more row in its traceback each time.

The rule reads three kinds of places:
- `except ... as error`: `error`, or a call with it, is assigned, returned, appended, given to a
  future or to a class, or used in a closure.
- a parameter that is an error by its annotation: it is stored or put into a closure.
- `raise` of an attribute, an item or a variable of an outer scope: an error that was kept.
"""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from typing import Final, NamedTuple, TypeAlias

import pytest

from tests.architecture.allowed import Found, allowed, check
from tests.architecture.facts import finding
from tests.architecture.sources import Source, functions, product

HELPER: Final = "without_frames"
_READERS: Final = frozenset(
    (
        *("str", "repr", "isinstance", "type", "getattr", "format", "is_permanent"),
        *("message_of", "trace_of", "cause_of", "cause_with_hint", "_trace"),
        *("Verdict.of", "record_errors", "copy", "classified", "refusal_of"),
    )
)
"""Calls that return facts of an error, and not the error."""
_KEEPERS: Final = frozenset(
    (
        *("append", "appendleft", "add", "extend", "insert", "put", "put_nowait", "setdefault"),
        *("set_exception", "call_soon", "call_soon_threadsafe", "partial", "fromkeys"),
    )
)
_ERROR: Final = re.compile(r"\b(\w*(Error|Exception|Failed|Corrupted)|BadData|CorruptLog)\b")
_SIGN: Final = re.compile(rf"except|raise|{_ERROR.pattern}")
Path: TypeAlias = tuple[ast.AST, ...]


class Use(NamedTuple):
    """A place that reads a variable with an error."""

    path: Path
    name: ast.AST
    is_caught: bool
    """Whether it was caught here; otherwise it is a parameter."""


@finding
def kept_errors(source: Source) -> Found:
    """Each function that keeps an error with its frames."""
    if source.module is None or not _SIGN.search(source.text):
        return {}
    found: dict[str, str] = {}
    makers = frozenset(_makers(source))
    for name, function in functions(source):
        lines = sorted(set(_kept(function, makers)))
        if lines:
            found[f"{source.path}::{name}"] = "keeps frames: " + "; ".join(
                text for _, text in lines
            )
    return found


def _makers(source: Source) -> Iterator[str]:
    """Yield the functions of this file that make something else of an error, by their types."""
    for _, function in functions(source):
        returned = "Error" if function.returns is None else ast.unparse(function.returns)
        if not _ERROR.search(returned):
            yield function.name


def _kept(
    function: ast.FunctionDef | ast.AsyncFunctionDef, makers: frozenset[str]
) -> Iterator[tuple[int, str]]:
    """Yield the lines of the function that keep an error, those of inner functions left out."""
    of_parameters = frozenset(_error_parameters(function))
    yield from _raised_from_outside(function)
    for statement in function.body:
        for each in _walk(statement, (), frozenset(), of_parameters):
            if isinstance(each, Use):
                line = _keeping(each, makers)
                if line is not None:
                    yield line
            else:
                yield each


def _raised_from_outside(
    function: ast.FunctionDef | ast.AsyncFunctionDef,
) -> Iterator[tuple[int, str]]:
    """Yield the lines that raise a variable of a function or module around this one."""
    given = function.args
    own = {each.arg for each in (*given.posonlyargs, *given.args, *given.kwonlyargs)}
    raised = []
    for node in ast.walk(function):
        if isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store):
            own.add(node.id)
        elif isinstance(node, ast.ExceptHandler) and node.name is not None:
            own.add(node.name)
        elif isinstance(node, ast.arg):
            own.add(node.arg)
        elif isinstance(node, ast.MatchAs) and node.name is not None:
            own.add(node.name)
        elif isinstance(node, ast.Raise) and isinstance(node.exc, ast.Name):
            raised.append((node.exc.id, node))
    for name, node in raised:
        is_class = name.lstrip("_")[:1].isupper() and not name.isupper()
        if name not in own and not is_class:
            yield node.lineno, ast.unparse(node)


def _error_parameters(function: ast.FunctionDef | ast.AsyncFunctionDef) -> Iterator[str]:
    given = function.args
    for each in (*given.posonlyargs, *given.args, *given.kwonlyargs):
        text = "" if each.annotation is None else ast.unparse(each.annotation).strip("'\"")
        if _ERROR.search(text) and not re.search(r"Callable|type\[", text):
            yield each.arg


def _walk(
    node: ast.AST, path: Path, caught: frozenset[str], given: frozenset[str]
) -> Iterator[tuple[int, str] | Use]:
    if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef) and not (
        caught or given
    ):
        return  # a function is read by itself
    if isinstance(node, ast.Raise) and isinstance(node.exc, ast.Attribute | ast.Subscript):
        if not ast.unparse(node.exc).rpartition(".")[2][:1].isupper():
            yield node.lineno, ast.unparse(node)
    elif isinstance(node, ast.Name) and isinstance(node.ctx, ast.Load):
        if node.id in caught | given:
            yield Use(path, node, node.id in caught)
        return
    if isinstance(node, ast.ExceptHandler) and node.name is not None:
        caught, given = caught | {node.name}, given - {node.name}
    for child in ast.iter_child_nodes(node):
        yield from _walk(child, (*path, node), caught, given)


def _keeping(use: Use, makers: frozenset[str]) -> tuple[int, str] | None:
    """Return the line that keeps the error, if one does."""
    path, child, is_in_call = use.path, use.name, False
    if any(isinstance(each, ast.Raise) for each in path):
        return None
    for node in reversed(path):
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.Lambda):
            return node.lineno, f"closure {getattr(node, 'name', 'lambda')}"
        if isinstance(
            node, ast.Attribute | ast.Compare | ast.FormattedValue | ast.UnaryOp
        ) or child is getattr(node, "test", None):
            return None
        if isinstance(node, ast.Call) and child is not node.func:
            called = ast.unparse(node.func)
            last = called.rpartition(".")[2]
            if {called, last} & _READERS or last in makers | {HELPER} or _is_log(called):
                return None
            if not is_in_call and (last in _KEEPERS or (last[:1].isupper() and use.is_caught)):
                return _line(path)
            is_in_call = True
        if isinstance(node, ast.Assign | ast.AnnAssign | ast.NamedExpr):
            is_local = isinstance(node, ast.NamedExpr) or all(
                isinstance(each, ast.Name) for each in _targets(node)
            )
            return _line(path) if use.is_caught or not (is_in_call or is_local) else None
        if isinstance(node, ast.Return):
            return _line(path) if use.is_caught and not is_in_call else None
        child = node
    return None


def _targets(node: ast.Assign | ast.AnnAssign) -> list[ast.expr]:
    return node.targets if isinstance(node, ast.Assign) else [node.target]


def _line(path: Path) -> tuple[int, str]:
    statement = next(each for each in reversed(path) if isinstance(each, ast.stmt))
    return statement.lineno, ast.unparse(statement).splitlines()[0]


def _is_log(called: str) -> bool:
    return re.search(r"\b_?(log|LOG)\.\w+$", called) is not None


def test_no_error_is_kept_with_its_frames() -> None:
    packages = allowed("errors_with_frames")
    among = [each for each in product() if not any(each.is_in(name) for name in packages)]

    check("kept_errors", kept_errors(among))


@pytest.mark.parametrize(
    "body",
    [
        "except KafkaError as error:\n  failure = error",
        "except KafkaError as error:\n  refusal = told(node, error)",
        "except KafkaError as error:\n  self.failure = error",
        "except KafkaError as error:\n  failures[key] = error",
        "except KafkaError as error:\n  first = first or error",
        "except KafkaError as error:\n  return error",
        "except KafkaError as error:\n  return None, error",
        "except KafkaError as error:\n  found.append(error)",
        "except KafkaError as error:\n  found.append((ticket, error))",
        "except KafkaError as error:\n  future.set_exception(error)",
        "except KafkaError as error:\n  self.park(Outcome((), error))",
        "except KafkaError as error:\n  self.later(lambda: answer(error))",
        "except KafkaError as error:\n  then(partial(fail, error))",
        "except KafkaError:\n  raise self.failure",
        "except KafkaError:\n  raise failures[0]",
        "except KafkaError:\n  raise _REFUSED",
        "except KafkaError:\n  def later():\n   raise refused",
    ],
)
def test_a_planted_keeper_is_found(body: str) -> None:
    text = f"def f():\n try:\n  g()\n {body.replace(chr(10), chr(10) + ' ')}"

    assert kept_errors([Source("broker/moldau/broker/a.py", text)])


@pytest.mark.parametrize(
    "text",
    [
        "def fail(self, error: KafkaError) -> None:\n self.failure = error",
        "def fail(self, error: OSError | None) -> None:\n self.failures[key] = error",
        "def fail(self, error: Exception) -> None:\n self.failures.append(error)",
        "def fail(self, error: Exception) -> None:\n def tell(): answer(error)\n later(tell)",
    ],
)
def test_a_planted_parameter_that_is_stored_is_found(text: str) -> None:
    assert kept_errors([Source("broker/moldau/broker/a.py", text)])


@pytest.mark.parametrize(
    "body",
    [
        "failure = without_frames(error)",
        "return str(error)",
        "code = error.code",
        "raise Other(reason) from error",
        "LOG.warning('x', error)",
        "self._log.failure('x', error)",
        "self.fail(error)",
        "found.append(f'{error}')",
        "is_late = error.code in LATER",
    ],
)
def test_what_keeps_no_error_is_no_finding(body: str) -> None:
    text = f"def f():\n try:\n  g()\n except KafkaError as error:\n  {body}"

    assert not kept_errors([Source("broker/moldau/broker/a.py", text)])
