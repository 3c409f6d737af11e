"""Constructors and descriptions of messages, generated from their specs on first use."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, TypeVar

from moldau.protocol.spec import MISSING, StructSpec

if TYPE_CHECKING:
    from collections.abc import Callable


def constructor_of(spec: StructSpec) -> Callable[..., None]:
    """Return an `__init__` with one keyword for each field, as fast as a hand-written one."""
    names: dict[str, Any] = {"MISSING": MISSING}
    parameters: list[str] = []
    lines: list[str] = []
    for field in spec.fields:
        name = field.name
        if field.is_required:
            parameters.append(name)
        elif field.is_late:
            parameters.append(f"{name}=MISSING")
            lines.append(f"    if {name} is MISSING: self.{field.slot} = None")
            lines.append(f"    else: self.{name} = {name}")
            continue
        elif field.default_factory is not MISSING:
            parameters.append(f"{name}=MISSING")
            names[f"make_{name}"] = field.default_factory
            lines.append(f"    if {name} is MISSING: {name} = make_{name}()")
        else:
            parameters.append(f"{name}=default_{name}")
            names[f"default_{name}"] = field.default
        lines.append(f"    self.{name} = {name}")
    keywords = ", *, " + ", ".join(parameters) if parameters else ""
    source = f"def __init__(self{keywords}):\n" + ("\n".join(lines) or "    pass")
    exec(compile(source, f"<constructor of {spec.name}>", "exec"), names)  # noqa: S102
    made: Callable[..., None] = names["__init__"]
    made.__qualname__ = f"{spec.name}.__init__"
    made.__module__ = spec.cls.__module__
    return made


T = TypeVar("T")


def maker_of(cls: type[T], *names: str) -> Callable[..., T]:
    """Return a plain function that makes an instance from these fields, in this order, and
    defaults.

    For the few places where a constructor's keywords cost more than the rest of the work.
    """
    spec: StructSpec = cls.spec  # type: ignore[attr-defined] # it is a declaration
    values: dict[str, Any] = {"cls": cls, "new": object.__new__}
    lines = [f"def make({', '.join(names)}):", "    self = new(cls)"]
    for field in spec.fields:
        if field.name in names:
            lines.append(f"    self.{field.name} = {field.name}")
        elif field.is_late:
            lines.append(f"    self.{field.slot} = None")
        elif field.default_factory is not MISSING:
            values[f"make_{field.name}"] = field.default_factory
            lines.append(f"    self.{field.slot} = make_{field.name}()")
        else:
            assert not field.is_required, f"{spec.name} needs {field.name}"
            values[f"default_{field.name}"] = field.default
            lines.append(f"    self.{field.slot} = default_{field.name}")
    lines.append("    return self")
    exec(compile("\n".join(lines), f"<maker of {spec.name}>", "exec"), values)  # noqa: S102
    made: Callable[..., T] = values["make"]
    return made


def describe(message: object, spec: StructSpec) -> str:
    """Return a description with the required fields, and those that differ from their default."""
    shown = []
    for field in spec.fields:
        value = getattr(message, field.name, MISSING)
        if field.is_required or value != field.make_default():
            shown.append(f"{field.name}={_shorten(value)}")
    return f"{spec.name}({', '.join(shown)})"


def _shorten(value: object) -> str:
    """Return the text of a value. Bytes are shown by their size: they are long, or secret."""
    if isinstance(value, bytes | bytearray | memoryview) and len(value) != 16:
        return f"<{len(value)} bytes>"
    return repr(value)
