"""Pickle a program for executors, or say which function cannot be sent and where it stands.

Functions and classes of the app's own modules go by value: of those that its steps' functions and
records are from, and of those that these use, as far as they are in the app's folder or the working
directory. So does each class that no module has under its name, such as the records of a selection.
Installed packages go by name, so executors need them.
"""

from __future__ import annotations

import posixpath
import sys
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager, suppress
from inspect import get_annotations
from io import BytesIO
from pickle import PicklingError
from struct import Struct
from types import FunctionType, ModuleType
from typing import Any, Final, get_type_hints

from msgspec import NODEFAULT, StructMeta, defstruct, field, structs
from msgspec.json import Decoder, Encoder

from moldau.plugins.extras import install_command
from moldau.runtime.places import absolute_path
from moldau.streams.plan.functions import functions_in, name_of
from moldau.streams.plan.plan import Program
from moldau.streams.problems import StreamsError, TopologyError
from moldau.streams.serdes.codec import Codec
from moldau.streams.serdes.types import INTERNAL_ANY

_CACHE: Final = "__msgspec_cache__"
_FOREIGN: Final = frozenset(("__main__", "moldau", *sys.stdlib_module_names))
_INSTALLED: Final = frozenset(("site-packages", "dist-packages"))
UNSENDABLE: Final = (PicklingError, TypeError, AttributeError, ValueError, RuntimeError)
"""What pickling raises for what cannot be pickled."""

_CONFIG: Final = (
    "frozen", "eq", "order", "array_like", "gc", "repr_omit_defaults", "omit_defaults",
    "forbid_unknown_fields", "weakref", "dict", "cache_hash", "tag", "tag_field",
)  # fmt: skip
_AT_ONCE: Final = ("__post_init__",)
_MADE: Final = (
    "__module__", "__qualname__", "__slots__", "__annotations__", "__match_args__", "__dict__",
    "__weakref__", "__init__", "__new__", "__reduce__", *_AT_ONCE,
)  # fmt: skip

Field = tuple[str, Any, dict[str, Any]]


def pickled(program: Program) -> bytes:
    """Return the program as bytes. What is in the app's own modules goes by value, so that
    executors need not have them. Raise TopologyError if something cannot be pickled."""
    modules = _modules(program)
    _, named = _dumped_whole(program, ())
    folders = {absolute_path("."), *map(_folder, [*modules, *_not_installed(named)])}
    data, met = _dumped_whole(program, modules)
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


def _dumped_whole(program: Program, modules: Iterable[ModuleType]) -> tuple[bytes, set[str]]:
    with _by_value(modules):
        try:
            return _dumped(program)
        except UNSENDABLE as error:
            raise TopologyError(_description(program, error)) from None


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
    inside = tuple(posixpath.join(folder, "") for folder in folders)
    return [each for each in _not_installed(names) if _path(each).startswith(inside)]


def _not_installed(names: Iterable[str]) -> list[ModuleType]:
    """Return those of the modules that are in files outside installed packages."""
    found = (
        sys.modules[name]
        for name in sorted(names)
        if name in sys.modules and name.partition(".")[0] not in _FOREIGN
    )
    return [
        each
        for each in found
        if (path := _path(each)) != "/" and _INSTALLED.isdisjoint(path.split("/"))
    ]


def _path(module: ModuleType) -> str:
    return absolute_path(getattr(module, "__file__", None) or "/")


def _folder(module: ModuleType) -> str:
    """Return the folder from which a module, or the package that it is in, is imported."""
    path = absolute_path(getattr(module, "__file__", None) or ".")
    ups = module.__name__.count(".") + 1 + path.endswith("/__init__.py")
    for _ in range(ups):
        path = posixpath.dirname(path)
    return path


def _modules(program: Program) -> list[ModuleType]:
    """Return the user's modules that the functions of a program are from."""
    names = {getattr(each, "__module__", None) or "builtins" for each in functions_in(program)}
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
            if isinstance(each, type) and not _is_by_name(each, by_value):
                _resolve(each)
                if isinstance(each, StructMeta):
                    return reduced(each)
            if isinstance(each, Encoder):
                return _encoder, (each.enc_hook, each.decimal_format, each.uuid_format, each.order)
            return super().reducer_override(each)

    written = BytesIO()
    Pickler(written).dump(value)
    return written.getvalue(), met


def _is_by_name(kind: type, by_value: Collection[str]) -> bool:
    """Whether an executor can import a class: its module, or a package around it, does not go by
    value, and has the class under its name."""
    names = (kind.__module__ or "").split(".")
    if any(".".join(names[:count]) in by_value for count in range(1, len(names) + 1)):
        return False
    found: Any = sys.modules.get(".".join(names))
    for name in kind.__qualname__.split("."):
        found = getattr(found, name, None)
    return found is kind


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


def _description(program: Program, error: Exception) -> str:
    for step in program.steps:
        for function in functions_in(step.operation):
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


def reduced(struct: StructMeta) -> tuple[Any, ...]:
    """Return how to make the class again. Its methods come last: they may name the class."""
    kind: Any = struct
    own = get_annotations(kind)
    found = [each for each in structs.fields(kind) if each.name in own]
    fields = [(each.name, each.type, _options(each)) for each in found]
    config = {name: getattr(kind.__struct_config__, name) for name in _CONFIG}
    config["kw_only"] = any(each.name not in kind.__match_args__ for each in found)
    at_once = {name: kind.__dict__[name] for name in _AT_ONCE if name in kind.__dict__}
    methods = {
        name: each
        for name, each in kind.__dict__.items()
        if name not in _MADE and name not in own and not name.startswith("__struct_")
    }
    parts = (kind.__name__, fields, kind.__bases__, kind.__module__, at_once, config)
    return _made, parts, methods, None, None, _with_methods


def _options(given: Any) -> dict[str, Any]:
    found = {"default": given.default, "default_factory": given.default_factory}
    options = {name: each for name, each in found.items() if each is not NODEFAULT}
    if given.encode_name != given.name:
        options["name"] = given.encode_name
    return options


def _made(
    name: str,
    fields: Sequence[Field],
    bases: tuple[type, ...],
    module: str,
    namespace: Mapping[str, Any],
    config: Mapping[str, Any],
) -> Any:
    rows = [
        (each, kind, field(**options)) if options else (each, kind)
        for each, kind, options in fields
    ]
    return defstruct(name, rows, bases=bases, module=module, namespace=dict(namespace), **config)


def _with_methods(kind: Any, methods: Mapping[str, Any]) -> None:
    for name, each in methods.items():
        setattr(kind, name, each)
