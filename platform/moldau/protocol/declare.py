"""Declares messages: a class with annotated fields, once for all its versions.

    class HeartbeatRequest(Request, key=12, versions="0-4", flexible="4+"):
        group_id: String
        generation_id: Int32
        group_instance_id: String | None = field(since=3, default=None)

Invariants: fields are in wire order; a bare annotation is a required keyword; a field that some
version lacks has a default. Creating a class only stores the annotations. Types are looked up in
the module's globals on the first use of `spec`, and constructor and codecs are generated on their
first call, because a program uses a few of the 281 messages and should not pay for the others.
"""

from __future__ import annotations

import sys
from collections.abc import Callable
from typing import (
    TYPE_CHECKING,
    Any,
    ClassVar,
    Self,
    TypedDict,
    TypeVar,
    cast,
    dataclass_transform,
    overload,
)

from moldau.deferred import deferred_pattern
from moldau.protocol.limits import DECODE_BUDGET
from moldau.protocol.spec import MISSING, ArrayOf, FieldSpec, FieldType, Kind, Missing
from moldau.protocol.spec import MessageSpec as MessageSpec
from moldau.protocol.spec import StructSpec as StructSpec
from moldau.protocol.types import Entity, Scalar
from moldau.protocol.versions import NO_VERSIONS, Versions, parse_versions

if TYPE_CHECKING:
    from collections.abc import Sequence
    from typing import Unpack

    from moldau.protocol.codec import Codec

T = TypeVar("T")


class FieldOptions(TypedDict, total=False):
    """The options of `field` besides the default; see `FieldSpec` for the meaning."""

    since: int | None
    until: int | None
    tag: int | None
    tagged_since: int | None
    nullable_since: int | None
    ignorable: bool
    map_key: bool
    flexible: bool
    name: str | None


class Field:
    """The value on the right of `=` in a declaration, until the class is created."""

    __slots__ = ("default", "default_factory", "options")

    def __init__(
        self, default: object, default_factory: Callable[[], Any] | Missing, options: FieldOptions
    ) -> None:
        self.default = default
        self.default_factory = default_factory
        self.options = options


@overload
def field(*, default: T, **options: Unpack[FieldOptions]) -> T: ...
@overload
def field(*, default_factory: Callable[[], T], **options: Unpack[FieldOptions]) -> T: ...
@overload
def field(**options: Unpack[FieldOptions]) -> Any: ...
def field(
    *,
    default: Any = MISSING,
    default_factory: Callable[[], Any] | Missing = MISSING,
    **options: Unpack[FieldOptions],
) -> Any:
    """Declare a field with more than a type.

    `since`, `until`: first and last version that have it. `tag`: its number in the tag section.
    `nullable_since`: the first version of `| None`, if not the message's first. `ignorable`: a
    version that lacks the field drops a value silently. `flexible=False`: never written in compact
    form. `name`: the schema's name, if it is not the Python name in camel case.
    """
    unknown = options.keys() - FieldOptions.__annotations__.keys()
    if unknown:
        raise TypeError(f"field() has no option {sorted(unknown)}")
    return Field(default, default_factory, options)


@dataclass_transform(kw_only_default=True, field_specifiers=(field,))
class Declaration(type):
    """The metaclass of structs and messages."""

    _declared: dict[str, tuple[str, Field | None]]
    _schema_name: str
    _spec: StructSpec | None

    def __new__(
        cls, name: str, bases: tuple[type, ...], namespace: dict[str, Any], **options: Any
    ) -> Declaration:
        """Store the fields and give the class a slot for each; look nothing up."""
        declared: dict[str, tuple[str, Field | None]] = {}
        slots = []
        for field_name, annotation in namespace.get("__annotations__", {}).items():
            if annotation.startswith("ClassVar["):
                continue
            noted = namespace.pop(field_name, None)
            declared[field_name] = (annotation, noted)
            if isinstance(noted, Field) and _is_late(annotation, noted):
                namespace[field_name] = _late_struct(field_name, noted.default_factory)
                field_name = f"_{field_name}"
            slots.append(field_name)
        namespace["__slots__"] = tuple(slots)
        namespace["_declared"] = declared
        namespace["_schema_name"] = options.pop("schema_name", name)
        namespace["_spec"] = None
        made = super().__new__(cls, name, bases, namespace)
        made._take_options(options)
        return made

    def __init__(
        cls, name: str, bases: tuple[type, ...], namespace: dict[str, Any], **options: Any
    ) -> None:
        super().__init__(name, bases, namespace)

    def _take_options(cls, options: dict[str, Any]) -> None:
        if options:
            raise TypeError(f"{cls.__name__}: a struct has no option {sorted(options)}")

    @property
    def spec(cls) -> StructSpec:
        """The declaration as data."""
        if cls._spec is None:
            cls._spec = cls._make_spec()
        return cls._spec

    def _make_spec(cls) -> StructSpec:
        return StructSpec(cls.__name__, cls._schema_name, cls, _fields_of(cls))


@dataclass_transform(kw_only_default=True, field_specifiers=(field,))
class MessageDeclaration(Declaration):
    """The metaclass of messages: structs with versions, a key and codecs."""

    _header: tuple[int | None, str, str, tuple[str, ...], bool]
    _codec: Codec | None

    def _take_options(cls, options: dict[str, Any]) -> None:
        """Take key=, versions=, flexible=, listeners=, latest_unstable=; `type=` in logs'
        records."""
        if "versions" not in options:
            super()._take_options(options)
            return
        cls._header = (
            options.pop("key", options.pop("type", None)),
            options.pop("versions"),
            options.pop("flexible", "none"),
            options.pop("listeners", ()),
            options.pop("latest_unstable", False),
        )
        cls._codec = None
        super()._take_options(options)

    @property
    def spec(cls) -> MessageSpec:
        """The declaration as data."""
        return cast("MessageSpec", super().spec)

    def _make_spec(cls) -> MessageSpec:
        key, versions, flexible, listeners, latest_unstable = cls._header
        spec = MessageSpec(cls.__name__, cls._schema_name, cls, _fields_of(cls))
        spec.kind = cast("type[Message]", cls)._kind
        spec.key = key
        spec.versions = parse_versions(versions)
        first_flexible = parse_versions(flexible)
        spec.flexible = (
            Versions(max(first_flexible.first, spec.versions.first), spec.versions.last)
            if first_flexible and spec.versions
            else NO_VERSIONS
        )
        spec.latest_unstable = latest_unstable
        spec.listeners = listeners
        return spec

    @property
    def codec(cls) -> Codec:
        """The functions that read and write the message in each version, generated on first use."""
        codec = cls._codec
        if codec is None:
            from moldau.protocol.codec import Codec

            codec = cls._codec = Codec(cls.spec)
        return codec


class Struct(metaclass=Declaration):
    """A group of fields inside a message. Mutable, compared by value, not hashable."""

    if not TYPE_CHECKING:
        __hash__ = None

        def __init__(self, **values):
            """Replace this constructor, at its first call, by a generated one."""
            from moldau.protocol.constructor import constructor_of

            cls = type(self)
            cls.__init__ = constructor_of(cls.spec)
            cls.__init__(self, **values)

    def __eq__(self, other: object) -> bool:
        if type(other) is not type(self):
            return NotImplemented
        return all(getattr(self, name) == getattr(other, name) for name in type(self)._declared)

    def __repr__(self) -> str:
        from moldau.protocol.constructor import describe

        return describe(self, type(self).spec)


class Message(Struct, metaclass=MessageDeclaration):
    """A struct that is sent by itself: it can be encoded and decoded in each of its versions."""

    _kind: ClassVar[Kind] = Kind.DATA
    _codec: ClassVar[Codec | None] = None

    def encode(self, version: int) -> bytes:
        """Return the bytes of the message in that version.

        Raise KafkaError(UNSUPPORTED_VERSION) if the version does not exist, or has no field for a
        value that is set; raise UnencodableMessage if a value does not fit its type.
        """
        codec = self._codec or type(self).codec
        return codec.encode(self, version)

    def encode_parts(self, version: int) -> Sequence[Any]:
        """Return the bytes in pieces; `Records` and `BytesView` values are not copied."""
        codec = self._codec or type(self).codec
        return codec.encode_parts(self, version)

    @classmethod
    def decode(cls, data: Any, version: int, *, budget: int = DECODE_BUDGET) -> Self:
        """Return the message that fills the whole buffer. Raise MalformedMessage, which says where
        and why.

        `budget` limits the estimated memory of the objects. Views in the result share the buffer's
        memory.
        """
        codec = cls._codec or cls.codec
        message: Self = codec.decode(data, version, budget)
        return message

    @classmethod
    def decode_from(
        cls, data: Any, position: int, version: int, *, budget: int = DECODE_BUDGET
    ) -> tuple[Self, int]:
        """Return the message that starts at `position`, and its end."""
        codec = cls._codec or cls.codec
        found: tuple[Self, int] = codec.decode_from(data, position, version, budget)
        return found


class Request(Message):
    """A message from a client to a server."""

    _kind: ClassVar[Kind] = Kind.REQUEST


class Response(Message):
    """The answer of a server to a request."""

    _kind: ClassVar[Kind] = Kind.RESPONSE


class Header(Message):
    """A message in front of a request or a response."""

    _kind: ClassVar[Kind] = Kind.HEADER


class MetadataRecord(Message):
    """A record of the cluster's metadata log; `type` is its number there."""

    _kind: ClassVar[Kind] = Kind.METADATA


class LogKey(Message):
    """The key of a record in a coordinator's log; `type` is its number there."""

    _kind: ClassVar[Kind] = Kind.LOG_KEY


class LogValue(Message):
    """The value of a record in a coordinator's log; `type` is that of its key."""

    _kind: ClassVar[Kind] = Kind.LOG_VALUE


class Data(Message):
    """A message inside other messages, records or files."""

    _kind: ClassVar[Kind] = Kind.DATA


def _entity_of(cls: Declaration, name: str) -> Entity | None:
    """Return what a value of the named type names; None if it is just a value."""
    markers = getattr(vars(sys.modules[cls.__module__]).get(name), "__metadata__", ())
    return next((each for each in markers if isinstance(each, Entity)), None)


def _is_late(annotation: str, noted: Field) -> bool:
    """Whether the default is a seldom used struct, so that it is created on first access."""
    return isinstance(noted.default_factory, Declaration) and not annotation.endswith("| None")


def _late_struct(name: str, make: Any) -> property:
    """Return a property for a nested struct, which is created when it is first read."""
    slot = f"_{name}"

    def read(self: Any) -> Any:
        value = getattr(self, slot)
        if value is None:
            value = make()
            setattr(self, slot, value)
        return value

    def write(self: Any, value: Any) -> None:
        if value is None:
            raise TypeError(f"{type(self).__name__}.{name} is never null")
        setattr(self, slot, value)

    return property(read, write)


_ANNOTATION = deferred_pattern(r"(?P<array>list\[)?(?P<name>\w+)(?(array)\])(?P<null> \| None)?")


def _fields_of(cls: Declaration) -> tuple[FieldSpec, ...]:
    return tuple(_field_of(cls, name, *noted) for name, noted in cls._declared.items())


def _field_of(cls: Declaration, name: str, annotation: str, noted: Field | None) -> FieldSpec:
    matched = _ANNOTATION.fullmatch(annotation)
    if matched is None:
        raise TypeError(f"{cls.__name__}.{name}: {annotation!r} is no type of the protocol")
    if noted is not None and not isinstance(noted, Field):
        raise TypeError(f"{cls.__name__}.{name}: a default is given as field(default=...)")
    options: FieldOptions = {} if noted is None else noted.options
    if options.get("tag") is not None and options.get("since") is None:
        options = {**options, "since": options.get("tagged_since")}
    return FieldSpec(
        name=name,
        schema_name=options.get("name") or "".join(map(str.capitalize, name.split("_"))),
        type=_type_of(cls, matched["name"], is_array=matched["array"] is not None),
        since=options.get("since"),
        until=options.get("until"),
        tag=options.get("tag"),
        tagged_since=options.get("tagged_since"),
        nullable=matched["null"] is not None,
        nullable_since=options.get("nullable_since"),
        ignorable=options.get("ignorable", False),
        map_key=options.get("map_key", False),
        flexible=options.get("flexible", True),
        default=MISSING if noted is None else noted.default,
        default_factory=MISSING if noted is None else noted.default_factory,
        slot=f"_{name}" if noted is not None and _is_late(annotation, noted) else name,
        entity=_entity_of(cls, matched["name"]),
    )


def _type_of(cls: Declaration, name: str, *, is_array: bool) -> FieldType:
    """Return the type that the name stands for in the module that declares the class."""
    found = vars(sys.modules[cls.__module__]).get(name)
    markers = getattr(found, "__metadata__", ())
    element: Scalar | StructSpec
    if isinstance(found, Declaration):
        element = found.spec
    elif markers and isinstance(markers[0], Scalar):
        element = markers[0]
    else:
        raise TypeError(f"{cls.__name__}: {name!r} is neither a type of the protocol nor a struct")
    return ArrayOf(element) if is_array else element
