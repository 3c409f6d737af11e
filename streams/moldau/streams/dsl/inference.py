"""Infer the types that functions return, without calling them.

Annotations come first. A plain lambda is followed as long as that needs no guessing: the result of
`lambda w: w` has the type of its argument, that of `lambda o: o.user` the type that the model
declares. Anything else is Any.
"""

from __future__ import annotations

import dis
import inspect
import typing
from collections.abc import Awaitable, Callable, Iterable
from types import CodeType, FunctionType
from typing import Any, get_args, get_origin, get_type_hints

from moldau.streams.plan.functions import Call

# Methods of built-in types, which have no annotations.
_RETURNS: dict[Any, Any] = {
    str.split: list[str], str.splitlines: list[str], str.rsplit: list[str], str.lower: str,
    str.upper: str, str.strip: str, str.title: str, str.casefold: str, str.encode: bytes,
    bytes.decode: str, bytes.split: list[bytes], len: int,
}  # fmt: skip
_QUIET = {"RESUME", "CACHE", "NOP", "RETURN_VALUE", "COPY_FREE_VARS", "PRECALL"}


def result_type(call: Call, key_type: Any, value_type: Any) -> Any:
    """Return the type that `call` returns for a record with these types of key and value."""
    function = call.function
    if call.expression is not None:
        return call.expression.result
    if isinstance(function, type):
        return function
    if (known := _known(function)) is not None:
        return known
    arguments = (key_type, value_type) if call.takes_key else (value_type,)
    if isinstance(function, FunctionType) and not call.takes_headers:
        if (declared := _annotation(function)) is not None:
            return declared
        return _follow(function.__code__, arguments)
    method = getattr(type(function), "__call__", None)  # noqa: B004
    return (_annotation(function) or _annotation(method)) or Any


def element_type(kind: Any) -> Any:
    """Return the type of the elements of an iterable type."""
    origin = get_origin(kind)
    arguments = get_args(kind)
    if kind is str:
        return str
    if origin is None or not arguments or not _is_iterable(origin):
        return Any
    return arguments[0] if len(arguments) == 1 or arguments[1] is Ellipsis else _generated(kind)


def pair_types(kind: Any) -> tuple[Any, Any]:
    """Return the types of key and value of a (key, value) pair."""
    arguments = get_args(kind)
    return arguments if get_origin(kind) is tuple and len(arguments) == 2 else (Any, Any)


def _generated(kind: Any) -> Any:
    """Return the yield type of a generator, which declares (yield, send, return)."""
    return get_args(kind)[0] if "Generator" in str(get_origin(kind)) else Any


def _is_iterable(origin: Any) -> bool:
    return isinstance(origin, type) and issubclass(origin, Iterable)


def _known(function: Any) -> Any:
    try:
        return _RETURNS.get(function)
    except TypeError:
        return None


def _annotation(function: Any) -> Any:
    try:
        hint = get_type_hints(function).get("return")
    except (TypeError, NameError, AttributeError):
        return None
    if hint is type(None):
        return None
    if inspect.iscoroutinefunction(function) and get_origin(hint) is typing.Coroutine:
        return get_args(hint)[2]
    return None if isinstance(hint, typing.TypeVar) else hint


def parameter_type(function: Callable[..., Any]) -> Any:
    """Return the declared type of the first parameter; Any without one."""
    try:
        names = list(inspect.signature(function).parameters)
        hints = get_type_hints(getattr(function, "__func__", function))
    except (TypeError, ValueError, NameError, AttributeError):
        return Any
    return hints.get(names[0], Any) if names else Any


def returns_awaitable(function: Any) -> bool:
    """Whether its annotation says so."""
    hint = get_origin(_annotation(function))
    return isinstance(hint, type) and issubclass(hint, Awaitable)


def _follow(code: CodeType, arguments: tuple[Any, ...]) -> Any:
    """Walk straight-line code that only reads its arguments, their fields and constants, and return
    the type of its result."""
    names = code.co_varnames[: code.co_argcount]
    types = dict(zip(names, arguments, strict=False))
    stack: list[Any] = []
    for instruction in dis.get_instructions(code):
        name, argument = instruction.opname, instruction.argval
        if name in _QUIET:
            continue
        if name.startswith("LOAD_FAST") and argument in types:
            stack.append(types[argument])
        elif name in ("LOAD_CONST", "RETURN_CONST"):
            stack.append(type(argument))
        elif name == "LOAD_ATTR" and stack and (hint := _field(stack[-1], argument)) is not None:
            stack[-1] = hint
        elif name == "BUILD_TUPLE" and argument and argument <= len(stack):
            parts = tuple(stack[-argument:])
            del stack[-argument:]
            stack.append(tuple.__class_getitem__(parts))
        elif name == "BUILD_STRING" and argument <= len(stack):
            del stack[len(stack) - argument :]
            stack.append(str)
        elif name in ("FORMAT_VALUE", "FORMAT_SIMPLE") and stack:
            stack[-1] = str
        else:
            return Any
    return stack[-1] if stack and stack[-1] is not type(None) else Any


def _field(kind: Any, name: str) -> Any:
    try:
        hints = get_type_hints(kind)
    except (TypeError, NameError, AttributeError):
        return None
    return hints.get(name)


def takes(function: Callable[..., Any], count: int) -> bool:
    """Whether a call may give `count` arguments; True for a built-in without a signature."""
    try:
        signature = inspect.signature(function)
    except (TypeError, ValueError):
        return True
    try:
        signature.bind(*[None] * count)
    except TypeError:
        return False
    return True


def takes_by_name(function: Callable[..., Any], name: str) -> bool:
    """Whether a call may give an argument of this name, and only by its name."""
    try:
        parameter = inspect.signature(function).parameters.get(name)
    except (TypeError, ValueError):
        return False
    return parameter is not None and parameter.kind is inspect.Parameter.KEYWORD_ONLY


def required_parameters(function: Callable[..., Any]) -> int:
    """Return how many arguments a call must give; 1 for a built-in without a signature."""
    try:
        parameters = inspect.signature(function).parameters.values()
    except (TypeError, ValueError):
        return 1
    positional = (inspect.Parameter.POSITIONAL_ONLY, inspect.Parameter.POSITIONAL_OR_KEYWORD)
    return sum(
        each.kind in positional and each.default is inspect.Parameter.empty for each in parameters
    )
