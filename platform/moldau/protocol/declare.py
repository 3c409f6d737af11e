"""How a message is declared: a class with annotated fields, once for all its versions.

    class HeartbeatRequest(Request, key=12, versions="0-4", flexible="4+"):
        group_id: String
        generation_id: Int32
        group_instance_id: String | None = field(since=3, default=None)

Invariants: fields stand in wire order; a bare annotation is a required keyword; a field that some
version lacks has a default. Making a class only notes the annotations; types are looked up in the
module's globals when `spec` is first asked for, and constructor and codecs are written when first
called, because a program uses a few of the 281 messages and should not pay for the others.
"""

from __future__ import annotations

import re
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

from moldau.protocol.limits import DECODE_BUDGET
from moldau.protocol.spec import MISSING, ArrayOf, FieldSpec, FieldType, Kind, Missing
from moldau.protocol.spec import MessageSpec as MessageSpec
from moldau.protocol.spec import StructSpec as StructSpec
from moldau.protocol.types import Scalar
from moldau.protocol.versions import NO_VERSIONS, Versions, parse_versions

if TYPE_CHECKING:
    from collections.abc import Sequence
    from typing import Unpack

    from moldau.protocol.codec import Codec

T = TypeVar("T")


class FieldOptions(TypedDict, total=False):
    """What `field` knows besides the default; see `FieldSpec` for the meaning."""

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
    """What stands right of `=` in a declaration, until the class is made."""

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
    """A field that is more than its type.

    `since`, `until`: first and last version that have it. `tag`: its number in the tag section.
    `nullable_since`: when `| None` does not hold from the first version on. `ignorable`: a version
    that lacks it may drop a value silently. `flexible=False`: never written in compact form.
    `name`: the schema's name where camel case of the Python name is not it.
    """
    unknown = options.keys() - FieldOptions.__annotations__.keys()
    if unknown:
        raise TypeError(f"field() has no option {sorted(unknown)}")
    return Field(default, default_factory, options)


@dataclass_transform(kw_only_default=True, field_specifiers=(field,))
class Declaration(type):
    """Makes the classes of structs and messages."""

    _declared: dict[str, tuple[str, Field | None]]
    _schema_name: str
    _spec: StructSpec | None

    def __new__(
        cls, name: str, bases: tuple[type, ...], namespace: dict[str, Any], **options: Any
    ) -> Declaration:
        """Notes the fields and gives the class a slot for each; looks nothing up."""
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
        """What the declaration says, as data."""
        if cls._spec is None:
            cls._spec = cls._make_spec()
        return cls._spec

    def _make_spec(cls) -> StructSpec:
        return StructSpec(cls.__name__, cls._schema_name, cls, _fields_of(cls))


@dataclass_transform(kw_only_default=True, field_specifiers=(field,))
class MessageDeclaration(Declaration):
    """Makes the classes of messages: structs with versions, a key and codecs."""

    _header: tuple[int | None, str, str, tuple[str, ...], bool]
    _codec: Codec | None

    def _take_options(cls, options: dict[str, Any]) -> None:
        """key=, versions=, flexible=, listeners=, latest_unstable=; `type=` for records of logs."""
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
        """What the declaration says, as data."""
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
        """The functions that read and write the message, one a version, written on first use."""
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
            """Stands in until the first call, when the constructor with these fields is written."""
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
    """What travels alone: it can be encoded and decoded in each of its versions."""

    _kind: ClassVar[Kind] = Kind.DATA
    _codec: ClassVar[Codec | None] = None

    def encode(self, version: int) -> bytes:
        """The bytes in that version.

        KafkaError(UNSUPPORTED_VERSION) when the version does not exist or cannot carry a value that
        is set; UnencodableMessage when a value does not fit its type.
        """
        codec = self._codec or type(self).codec
        return codec.encode(self, version)

    def encode_parts(self, version: int) -> Sequence[Any]:
        """The bytes in pieces, `Records` and `BytesView` values passed through untouched."""
        codec = self._codec or type(self).codec
        return codec.encode_parts(self, version)

    @classmethod
    def decode(cls, data: Any, version: int, *, budget: int = DECODE_BUDGET) -> Self:
        """The message that fills the whole buffer; MalformedMessage says where and why not.

        `budget` bounds the memory that the objects may take, by estimate. Views in the result
        share the buffer's memory.
        """
        codec = cls._codec or cls.codec
        message: Self = codec.decode(data, version, budget)
        return message

    @classmethod
    def decode_from(
        cls, data: Any, position: int, version: int, *, budget: int = DECODE_BUDGET
    ) -> tuple[Self, int]:
        """The message that starts at `position`, and where it ends."""
        codec = cls._codec or cls.codec
        found: tuple[Self, int] = codec.decode_from(data, position, version, budget)
        return found


class Request(Message):
    """What a client sends."""

    _kind: ClassVar[Kind] = Kind.REQUEST


class Response(Message):
    """What a server answers."""

    _kind: ClassVar[Kind] = Kind.RESPONSE


class Header(Message):
    """What stands before a request or a response."""

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
    """Bytes with a schema inside other messages, records or files."""

    _kind: ClassVar[Kind] = Kind.DATA


def _is_late(annotation: str, noted: Field) -> bool:
    """Is the default a struct that few messages ever look at, so that it is made when asked for?"""
    return isinstance(noted.default_factory, Declaration) and not annotation.endswith("| None")


def _late_struct(name: str, make: Any) -> property:
    """A property for a nested struct, which is made when it is first read."""
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


_ANNOTATION = re.compile(r"(?P<array>list\[)?(?P<name>\w+)(?(array)\])(?P<null> \| None)?")


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
    )


def _type_of(cls: Declaration, name: str, *, is_array: bool) -> FieldType:
    """What the name stands for in the module that declares the class."""
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
