"""Makes the bytes of a record from the texts of a form: by the schema of the topic, if it has one.

Invariant: into a topic whose subject has a schema no other bytes are written. A registry that does
not answer refuses the record, because the schema that it must follow is not known.
"""

from __future__ import annotations

import json
from dataclasses import replace
from inspect import isawaitable
from typing import TYPE_CHECKING, Final

from moldau.client.serdes.contract import Place
from moldau.client.serdes.registry.naming import SchemaOptions, topic_subject
from moldau.client.serdes.registry.schemas import RegisteredSchema, RegistryError
from moldau.console.pages.rendering import BadForm
from moldau.console.pages.schema_form import form_of_schema
from moldau.errors import MoldauError
from moldau.values.schema import PROTOBUF

if TYPE_CHECKING:
    from moldau.console.pages.decoding import Decoder
    from moldau.console.pages.schema_form import SchemaField
    from moldau.records import Headers

_NOT_FOUND: Final = 404


class Encoder:
    """Writes keys and values, without a registry as the text that they are."""

    def __init__(self, decoder: Decoder | None) -> None:
        self._registry = None if decoder is None else decoder.registry()
        options = SchemaOptions() if decoder is None else decoder.options
        self._options = replace(
            options, subject=topic_subject, auto_register=False, use_latest=True, use_id=None
        )

    async def data(self, text: str, place: Place) -> bytes:
        """Return the bytes of a key or a value. Raise BadForm for a text that the schema of the
        place does not allow, RegistryError if the registry cannot be asked."""
        found = await self.schema(place)
        if found is None or self._registry is None:
            return text.encode()
        from moldau.client.serdes.texts import TextSerializer

        kind, subject = found.schema.type, found.subject
        try:
            data = TextSerializer(kind, self._registry, options=self._options)(text, place)
            return await data if isawaitable(data) else data
        except RegistryError:
            raise
        except (MoldauError, ValueError, TypeError, LookupError) as error:
            raise BadForm(
                f"{place.side}: it does not fit the schema of {subject} ({kind}), so write JSON "
                f"that fits it: {error}"
            ) from error

    async def schema(self, place: Place) -> RegisteredSchema | None:
        """Return the latest schema of a place, None if it has none."""
        if self._registry is None:
            return None
        try:
            return await self._registry.latest(topic_subject(place, None))
        except RegistryError as error:
            if error.status == _NOT_FOUND:
                return None
            raise


async def value_form(decoder: Decoder | None, topic: str) -> tuple[str, SchemaField] | None:
    """Return the subject and version of a topic's values, and the form that their schema makes;
    None if there is none. Raise RegistryError, also if the registry did not answer just before."""
    if decoder is None:
        return None
    encoder = Encoder(decoder)
    found = await decoder.asked(lambda _: encoder.schema(Place(topic, False)))
    if found is None:
        return None
    schema, parsed = found.schema, None
    try:
        if schema.type == PROTOBUF:
            from moldau.values.protobuf.files import descriptor_of

            number = found.id
            whole = await decoder.asked(lambda it: it.schema(number, format="serialized"))
            parsed = descriptor_of(whole.text)
        else:
            parsed = json.loads(schema.text)
        form = None if parsed is None else form_of_schema(schema.type, parsed)
    except (MoldauError, ValueError, LookupError, TypeError, AttributeError):
        return None  # the JSON way is left
    return None if form is None else (f"{found.subject} {found.version}", form)


def headers_of(text: str) -> list[tuple[str, bytes]]:
    """Return the headers of a form: a line each, as `name: value`. Raise BadForm."""
    headers = []
    for number, line in enumerate(text.replace("\r\n", "\n").split("\n"), 1):
        if not line.strip():
            continue
        name, colon, value = line.partition(":")
        if not colon or not name.strip():
            raise BadForm(f"headers: line {number} is not `name: value`")
        headers.append((name.strip(), value.removeprefix(" ").encode()))
    return headers


def are_exact(headers: Headers, shown: tuple[tuple[str, str], ...]) -> bool:
    """Whether `headers_of` makes the same headers again of lines with the shown texts."""
    lines = "\n".join(f"{name}: {text}" for name, text in shown)
    try:
        return headers_of(lines) == [(name, bytes(data or b"")) for name, data in headers] and all(
            data is not None for _, data in headers
        )
    except BadForm:
        return False
