"""Codecs by type: str is UTF-8, bytes are raw, everything else is JSON.

Values without a declared type need two codecs. Output to a topic of the user is written plainly, by
the type that each value has at run time. What the app reads back (repartition topics and stores)
must keep its type: text is plain, and anything else has a mark in front.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable
from typing import Any, NoReturn, get_args, get_origin

import msgspec
import msgspec.inspect

from moldau.streams.problems import TopologyError
from moldau.streams.serdes.awaitables import true_unless_awaitable
from moldau.streams.serdes.codec import Codec
from moldau.streams.serdes.windowed import SessionWindowed, TimeWindowed, session_codec, time_codec
from moldau.values.failures import DeserializationFailed


def _no_json(value: Any) -> NoReturn:
    """Raise TypeError for a value that JSON cannot have."""
    true_unless_awaitable(value)
    raise TypeError(f"Encoding objects of type {type(value).__name__} is unsupported")


_encoder = msgspec.json.Encoder(enc_hook=_no_json)
_key_encoder = msgspec.json.Encoder(enc_hook=_no_json, order="deterministic")
_decode_any = msgspec.json.Decoder().decode
_IMMUTABLE = (str, bytes, int, float, bool, type(None))

# The errors that a decoder raises on bytes that are no value of its type.
UNREADABLE = (ValueError, msgspec.MsgspecError, DeserializationFailed)

_MARK = b"\x00"
_RAW = b"\x00\x01"
_TUPLE = b"\x00\x02"
_NATIVE = (str, int, float, bool, list, dict)


def _raw(value: Any) -> bytes:
    if not isinstance(value, bytes):
        true_unless_awaitable(value)
        raise TypeError(f"expected bytes, got {type(value).__name__}")
    return value


def _text(value: Any) -> bytes:
    try:
        return str.encode(value)
    except TypeError:
        true_unless_awaitable(value)
        raise TypeError(f"expected str, got {type(value).__name__}: {value!r:.80}") from None


def _lenient_text(data: bytes) -> str | bytes:
    try:
        return data.decode()
    except UnicodeDecodeError:
        return data


def _lenient_json(data: bytes) -> Any:
    try:
        return _decode_any(data)
    except UNREADABLE:
        return _lenient_text(data)


def _plain(value: Any) -> bytes:
    if value.__class__ is str:
        return value.encode()
    if value.__class__ is bytes:
        return value
    if hasattr(value, "model_dump_json"):
        return value.model_dump_json().encode()  # type: ignore[no-any-return]
    return _encoder.encode(value)


def _marked(value: Any) -> bytes:
    if value.__class__ is str:
        data: bytes = value.encode()
        return _MARK + _key_encoder.encode(value) if data.startswith(_MARK) else data
    if value.__class__ is bytes:
        return _RAW + value
    if value.__class__ is tuple:
        return _TUPLE + _key_encoder.encode(value)
    return _MARK + _key_encoder.encode(_native(value))


def _unmarked(data: bytes) -> Any:
    if not data.startswith(_MARK):
        return data.decode()
    if data.startswith(_TUPLE):
        return tuple(_decode_any(data[2:]))
    return data[2:] if data.startswith(_RAW) else _decode_any(data[1:])


def _native(value: Any) -> Any:
    """Return a value that JSON restores unchanged. Raise TypeError for other types: they would come
    back as a dict or text."""
    if value.__class__ not in _NATIVE:
        true_unless_awaitable(value)
        raise TypeError(
            f"the type {type(value).__name__} must be declared before such values are kept or "
            "sent on: annotate what the function returns, or pass type=..."
        )
    return value


def _json_value(value: Any) -> bytes:
    return _encoder.encode(_native(value))


TEXT = Codec("str", _text, bytes.decode, is_hashable=True, is_immutable=True, kind=str)
BYTES = Codec("bytes", _raw, bytes, is_hashable=True, is_immutable=True, kind=bytes)
# For keys without a declared type: text if the bytes are UTF-8, else bytes.
LENIENT_TEXT = Codec("str or bytes", _plain, _lenient_text, is_hashable=True, is_immutable=True)
LENIENT_JSON = Codec("json or text", _plain, _lenient_json)
ANY_JSON = Codec("json", _plain, _decode_any)
INTERNAL_ANY = Codec("any", _marked, _unmarked)
INTERNAL_VALUE = Codec("any json", _json_value, _decode_any)


class UndeclaredType:
    """The type of keys without a declared one: UTF-8 text, or bytes if they are not UTF-8."""


def codec_for(kind: Any, *, is_internal: bool = False) -> Codec:
    """Return the codec of a type. `is_internal`: only this app reads the bytes back."""
    if isinstance(kind, Codec):
        return kind
    if kind is UndeclaredType:
        return LENIENT_TEXT
    if kind is Any or kind is object:
        return INTERNAL_ANY if is_internal else ANY_JSON
    if kind is str:
        return TEXT
    if kind is bytes:
        return BYTES
    if isinstance(kind, TimeWindowed):
        return time_codec(codec_for(kind.key, is_internal=is_internal), kind.size_ms)
    if isinstance(kind, SessionWindowed):
        return session_codec(codec_for(kind.key, is_internal=is_internal))
    return _model(kind) if hasattr(kind, "model_validate_json") else _json(kind)


def stored_codec(kind: Any) -> Codec:
    """Return the codec of values in stores and repartition topics."""
    codec = codec_for(kind, is_internal=True)
    return INTERNAL_VALUE if codec is INTERNAL_ANY else codec


def key_codec(kind: Any) -> Codec:
    """Return the codec of keys in stores and repartition topics."""
    return codec_for(kind, is_internal=True)


def _json(kind: Any) -> Codec:
    try:
        decoder = msgspec.json.Decoder(kind)
    except TypeError as error:
        raise TopologyError(
            f"type {type_name(kind)} cannot be JSON: {error}; "
            "declare a msgspec.Struct, dataclass, pydantic model or Codec"
        ) from None
    hashable = _is_hashable(kind)
    # Equal sets come in any order, and some steps compare values by their bytes.
    is_ordered = hashable or _has_sets(msgspec.inspect.type_info(kind), set())
    encode: Callable[[Any], bytes] = _key_encoder.encode if is_ordered else _encoder.encode
    return Codec(type_name(kind), encode, decoder.decode, hashable, _is_immutable(kind), kind)


def _model(kind: Any) -> Codec:
    def encode(value: Any) -> bytes:
        try:
            return value.model_dump_json().encode()  # type: ignore[no-any-return]
        except AttributeError:
            true_unless_awaitable(value)
            raise

    return Codec(type_name(kind), encode, kind.model_validate_json, kind=kind)


def _is_hashable(kind: Any) -> bool:
    """Whether equal values have equal bytes: not for floats (0.0 == -0.0) or bool beside int."""
    if kind in (str, bytes, int):
        return True
    if get_origin(kind) is tuple:
        return all(_is_hashable(part) for part in get_args(kind) if part is not Ellipsis)
    if isinstance(kind, type) and issubclass(kind, msgspec.Struct):
        config = kind.__struct_config__
        fields = msgspec.structs.fields(kind)
        return config.frozen and config.eq and all(_is_hashable(each.type) for each in fields)
    return False


def _has_sets(info: Any, seen: set[int]) -> bool:
    """Whether values of a type, as msgspec describes it, may have sets in them."""
    if id(info) in seen:
        return False
    seen.add(id(info))
    if isinstance(info, msgspec.inspect.SetType | msgspec.inspect.FrozenSetType):
        return True
    parts = [getattr(info, name, None) for name in ("item_type", "key_type", "value_type")]
    for name in ("item_types", "types"):
        parts += getattr(info, name, ())
    parts += [field.type for field in getattr(info, "fields", ())]
    return any(_has_sets(part, seen) for part in parts if part is not None)


def _is_immutable(kind: Any) -> bool:
    if kind in _IMMUTABLE:
        return True
    if get_origin(kind) is tuple:
        return all(_is_immutable(part) for part in get_args(kind) if part is not Ellipsis)
    if isinstance(kind, type) and issubclass(kind, msgspec.Struct):
        fields = msgspec.structs.fields(kind)
        return kind.__struct_config__.frozen and all(_is_immutable(each.type) for each in fields)
    if dataclasses.is_dataclass(kind):
        frozen: bool = kind.__dataclass_params__.frozen  # type: ignore[union-attr]
        return frozen and all(_is_immutable(each.type) for each in dataclasses.fields(kind))
    return False


def type_name(kind: Any) -> str:
    """Return a short name of a type for messages and plans."""
    if isinstance(kind, Codec):
        return kind.name
    if kind is Any:
        return "any"
    if kind is UndeclaredType:
        return "str or bytes"
    if isinstance(kind, TimeWindowed | SessionWindowed):
        return f"windowed {type_name(kind.key)}"
    if get_origin(kind) is not None:
        return str(kind).replace("typing.", "")
    return getattr(kind, "__name__", str(kind))
