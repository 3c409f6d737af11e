"""Pickle a program for executors, or say which function cannot be sent and where it stands."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from contextlib import ExitStack
from dataclasses import fields, is_dataclass
from io import BytesIO
from pickle import PicklingError
from struct import Struct
from types import ModuleType
from typing import Any, Final

from msgspec import StructMeta
from msgspec.json import Decoder, Encoder

from moldau.plugins.extras import install_command
from moldau.streams.plan.functions import name_of
from moldau.streams.plan.plan import Program
from moldau.streams.problems import StreamsError, TopologyError
from moldau.streams.serdes.codec import Codec
from moldau.streams.serdes.types import INTERNAL_ANY
from moldau.streams.spark.structs import reduced

_CACHE: Final = "__msgspec_cache__"
UNSENDABLE: Final = (PicklingError, TypeError, AttributeError, ValueError, RuntimeError)
"""What pickling raises for what cannot be pickled."""


def pickled(program: Program) -> bytes:
    """Return the program as bytes. What is in the modules of its functions goes by value, so that
    executors need not have them. Raise TopologyError if something cannot be pickled."""
    try:
        from pyspark import cloudpickle
    except ImportError:
        raise StreamsError(f"Spark is not installed: {install_command('spark')}") from None

    with ExitStack() as registered:
        for module in _modules(program):
            if module.__name__ not in cloudpickle.list_registry_pickle_by_value():
                cloudpickle.register_pickle_by_value(module)
                registered.callback(cloudpickle.unregister_pickle_by_value, module)
        try:
            return _dumped(program)
        except UNSENDABLE as error:
            raise TopologyError(_told(program, error)) from None


def _modules(program: Program) -> list[ModuleType]:
    """Return the user's modules that the functions of a program are from."""
    functions = [each for step in program.steps for each in _functions(step.operation)]
    names = {getattr(each, "__module__", None) or "builtins" for each in functions}
    return [
        sys.modules[name]
        for name in sorted(names)
        if name in sys.modules
        and name != "__main__"
        and name.partition(".")[0] not in ("moldau", *sys.stdlib_module_names)
    ]


def _dumped(value: Any) -> bytes:
    """Pickle with cloudpickle, which knows neither encoders and structs of msgspec nor Struct."""
    from pyspark.cloudpickle import CloudPickler, list_registry_pickle_by_value

    by_value = {"__main__", *list_registry_pickle_by_value()}

    class Pickler(CloudPickler):  # type: ignore[misc]
        def reducer_override(self, each: Any) -> Any:
            if each is INTERNAL_ANY:  # the engine asks for this very one
                return _internal_any, ()
            if isinstance(each, Decoder):
                return _decoder, (each.type, each.strict, each.dec_hook, each.float_hook)
            if isinstance(each, Struct):  # of nested functions of ours
                return Struct, (each.format,)
            if isinstance(each, type) and _CACHE in each.__dict__:
                delattr(each, _CACHE)  # msgspec makes it again
            if isinstance(each, StructMeta) and each.__module__ in by_value:
                return reduced(each)
            if isinstance(each, Encoder):
                return _encoder, (each.enc_hook, each.decimal_format, each.uuid_format, each.order)
            return super().reducer_override(each)

    written = BytesIO()
    Pickler(written).dump(value)
    return written.getvalue()


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
