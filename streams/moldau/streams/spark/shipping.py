"""Pickle a program for executors, or say which function cannot be sent and where it stands.

Functions and classes of the app's own modules go by value: of those that its steps' functions are
from, and of those that these use, as far as they are in the app's folder or the working directory.
Installed packages go by name, so executors need them.
"""

from __future__ import annotations

import posixpath
import sys
from collections.abc import Collection, Iterable, Iterator
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import fields, is_dataclass
from inspect import get_annotations
from io import BytesIO
from pickle import PicklingError
from struct import Struct
from types import FunctionType, ModuleType
from typing import Any, Final, get_type_hints

from msgspec import StructMeta
from msgspec.json import Decoder, Encoder

from moldau.plugins.extras import install_command
from moldau.runtime.places import absolute_path
from moldau.streams.plan.functions import name_of
from moldau.streams.plan.plan import Program
from moldau.streams.problems import StreamsError, TopologyError
from moldau.streams.serdes.codec import Codec
from moldau.streams.serdes.types import INTERNAL_ANY
from moldau.streams.spark.structs import reduced

_CACHE: Final = "__msgspec_cache__"
_FOREIGN: Final = frozenset(("__main__", "moldau", *sys.stdlib_module_names))
_INSTALLED: Final = frozenset(("site-packages", "dist-packages"))
UNSENDABLE: Final = (PicklingError, TypeError, AttributeError, ValueError, RuntimeError)
"""What pickling raises for what cannot be pickled."""


def pickled(program: Program) -> bytes:
    """Return the program as bytes. What is in the app's own modules goes by value, so that
    executors need not have them. Raise TopologyError if something cannot be pickled."""
    modules = _modules(program)
    folders = {absolute_path("."), *map(_folder, modules)}
    with _by_value(modules):
        try:
            data, met = _dumped(program)
        except UNSENDABLE as error:
            raise TopologyError(_told(program, error)) from None
    by_name: list[ModuleType] = []
    while more := [each for each in _own(met, folders) if each not in (*modules, *by_name)]:
        with _by_value([*modules, more[0]]):
            try:
                data, met = _dumped(program)
            except UNSENDABLE:  # it holds a lock or the like: for executors that have the module
                by_name.append(more[0])
            else:
                modules.append(more[0])
    return data


@contextmanager
def _by_value(modules: Iterable[ModuleType]) -> Iterator[None]:
    try:
        from pyspark import cloudpickle
    except ImportError:
        raise StreamsError(f"Spark is not installed: {install_command('spark')}") from None
    with ExitStack() as registered:
        for module in modules:
            if module.__name__ not in cloudpickle.list_registry_pickle_by_value():
                cloudpickle.register_pickle_by_value(module)
                registered.callback(cloudpickle.unregister_pickle_by_value, module)
        yield


def _own(names: Iterable[str], folders: Collection[str]) -> list[ModuleType]:
    """Return those of the modules that are in these folders, and not in an installed package."""
    found = []
    for name in sorted(names):
        module = sys.modules.get(name)
        if module is None or name.partition(".")[0] in _FOREIGN:
            continue
        path = absolute_path(getattr(module, "__file__", None) or "/")
        is_inside = any(path.startswith(posixpath.join(folder, "")) for folder in folders)
        if is_inside and _INSTALLED.isdisjoint(path.split("/")):
            found.append(module)
    return found


def _folder(module: ModuleType) -> str:
    """Return the folder from which a module, or the package that it is in, is imported."""
    path = absolute_path(getattr(module, "__file__", None) or ".")
    ups = module.__name__.count(".") + 1 + path.endswith("/__init__.py")
    for _ in range(ups):
        path = posixpath.dirname(path)
    return path


def _modules(program: Program) -> list[ModuleType]:
    """Return the user's modules that the functions of a program are from."""
    functions = [each for step in program.steps for each in _functions(step.operation)]
    names = {getattr(each, "__module__", None) or "builtins" for each in functions}
    return [
        sys.modules[name]
        for name in sorted(names)
        if name in sys.modules and name.partition(".")[0] not in _FOREIGN
    ]


def _dumped(value: Any) -> tuple[bytes, set[str]]:
    """Pickle with cloudpickle, which knows neither encoders and structs of msgspec nor Struct.
    Return also the names of the modules of all functions and classes that were met."""
    from pyspark.cloudpickle import CloudPickler, list_registry_pickle_by_value

    by_value = {"__main__", *list_registry_pickle_by_value()}
    met: set[str] = set()

    class Pickler(CloudPickler):  # type: ignore[misc]
        def reducer_override(self, each: Any) -> Any:
            if isinstance(each, type | FunctionType):
                met.add(each.__module__ or "builtins")
            elif isinstance(each, ModuleType):
                met.add(each.__name__)
            if each is INTERNAL_ANY:  # the engine asks for this very one
                return _internal_any, ()
            if isinstance(each, Decoder):
                return _decoder, (each.type, each.strict, each.dec_hook, each.float_hook)
            if isinstance(each, Struct):  # of nested functions of ours
                return Struct, (each.format,)
            if isinstance(each, type) and _CACHE in each.__dict__:
                delattr(each, _CACHE)  # msgspec makes it again
            if isinstance(each, type) and each.__module__ in by_value:
                _resolve(each)
            if isinstance(each, StructMeta) and each.__module__ in by_value:
                return reduced(each)
            if isinstance(each, Encoder):
                return _encoder, (each.enc_hook, each.decimal_format, each.uuid_format, each.order)
            return super().reducer_override(each)

    written = BytesIO()
    Pickler(written).dump(value)
    return written.getvalue(), met


def _resolve(kind: type) -> None:
    """Replace annotations that are texts by what they name: msgspec reads those of a dataclass in
    the executor, which lacks the module."""
    own = get_annotations(kind)
    if any(isinstance(each, str) for each in own.values()):
        # A name may be one that only type checkers know.
        with suppress(NameError, AttributeError, TypeError, SyntaxError):
            known = get_type_hints(kind, include_extras=True)
            kind.__annotations__ = {name: known[name] for name in own}


def _internal_any() -> Codec:
    return INTERNAL_ANY


def _decoder(kind: Any, strict: bool, dec_hook: Any, float_hook: Any) -> Any:
    return Decoder(kind, strict=strict, dec_hook=dec_hook, float_hook=float_hook)


def _encoder(enc_hook: Any, decimal_format: Any, uuid_format: Any, order: Any) -> Any:
    return Encoder(
        enc_hook=enc_hook, decimal_format=decimal_format, uuid_format=uuid_format, order=order
    )


def _told(program: Program, error: Exception) -> str:
    for step in program.steps:
        for function in _functions(step.operation):
            try:
                _dumped(function)
            except UNSENDABLE as cause:
                code = getattr(function, "__code__", None)
                where = f" ({code.co_filename}, line {code.co_firstlineno})" if code else ""
                return (
                    f"app={program.app} {step.name}: the function {name_of(function)}{where} "
                    f"cannot be sent to executors: {cause}; make what it uses inside the function"
                )
    return f"app={program.app}: sub-topology {program.index} cannot be sent to executors: {error}"


def _functions(value: Any) -> Iterator[Any]:
    """Yield the functions in an operation, however deep they are."""
    if callable(value) and not isinstance(value, type):
        yield value
    if isinstance(value, tuple):
        for each in value:
            yield from _functions(each)
    elif is_dataclass(value) and not isinstance(value, type):
        for row in fields(value):
            yield from _functions(getattr(value, row.name))
