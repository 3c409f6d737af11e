"""The messages of a registered protobuf file and their paths, from its descriptor or its text.

Only names and their nesting are read from the text, which is all that a path needs. Registries that
have no descriptors (Apicurio) give the text.

A path can have two meanings, because serializers disagree about a nested message that stands after
a map: protobuf makes a message of each map's entries, which Python's and Go's serializers count and
Java's does not. `names_at` gives both if they differ, first the one that counts.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import field
from typing import Any, Final

from moldau.deferred import dataclass, deferred_pattern
from moldau.errors import ConfigError
from moldau.plugins.extras import need

_VISIBILITY: Final = deferred_pattern(r"\b(?:export|local)\s+(?=(?:message|enum)\b)")
"""Keywords of edition 2024 that the parser does not know yet."""


@dataclass
class _Message:
    """A message. `is_implied` if the file does not declare it as one: a map's entries, a group."""

    name: str
    nested: list[_Message] = field(default_factory=list)
    is_implied: bool = False


@dataclass
class Messages:
    """The messages of one file."""

    package: str = ""
    declared: list[_Message] = field(default_factory=list)

    def names_at(self, path: Sequence[int]) -> list[str]:
        """Return the full names that the path may mean; none if it leads to no message."""
        names = [self._name_at(path, counts_implied=each) for each in (True, False)]
        return list(dict.fromkeys(name for name in names if name is not None))

    def path_of(self, full_name: str) -> tuple[int, ...] | None:
        """Return the path of the message, or None if the file does not have it."""
        prefix = f"{self.package}." if self.package else ""
        if not full_name.startswith(prefix):
            return None
        path, messages = [], self.declared
        for name in full_name.removeprefix(prefix).split("."):
            index = next((at for at, each in enumerate(messages) if each.name == name), None)
            if index is None:
                return None
            path.append(index)
            messages = messages[index].nested
        return tuple(path)

    def _name_at(self, path: Sequence[int], *, counts_implied: bool) -> str | None:
        names, messages, found = [self.package] if self.package else [], self.declared, None
        for index in path:
            counted = [each for each in messages if counts_implied or not each.is_implied]
            if index >= len(counted):
                return None
            found = counted[index]
            names.append(found.name)
            messages = found.nested
        return None if found is None or found.is_implied else ".".join(names)


def messages_of_file(file: Any) -> Messages:
    """Return the messages of a `FileDescriptorProto`."""
    return Messages(file.package, [_of_descriptor(each) for each in file.message_type])


def _of_descriptor(message: Any) -> _Message:
    nested = [_of_descriptor(each) for each in message.nested_type]
    return _Message(message.name, nested, message.options.map_entry)


def messages_of_text(text: str) -> Messages:
    """Return the messages of a .proto file. Skip what proto-schema-parser does not understand."""
    parsing = need("proto_schema_parser.parser", "protobuf")
    parser = parsing.Parser(setup_lexer=_be_silent, setup_parser=_be_silent)
    try:
        file = parser.parse(_VISIBILITY.sub("", text))
    except RecursionError:
        raise ConfigError("the protobuf schema is nested too deeply", schema=text[:80]) from None
    packages = [each.name for each in file.file_elements if type(each).__name__ == "Package"]
    package = "".join(packages[-1].split()) if packages else ""
    return Messages(package, list(_of_elements(file.file_elements)))


def _be_silent(recognizer: Any) -> None:
    """Stop ANTLR from writing syntax errors to stderr."""
    recognizer.removeErrorListeners()


def _of_elements(elements: Iterable[Any]) -> Iterator[_Message]:
    """The messages that a file or a message declares, in the order that serializers count."""
    for each in elements:
        kind = type(each).__name__
        if kind in ("Message", "Group") and each.name:
            yield _Message(each.name, list(_of_elements(each.elements)), kind == "Group")
        elif kind == "MapField":
            parts = [part[:1].upper() + part[1:] for part in each.name.split("_")]
            yield _Message("".join(parts) + "Entry", is_implied=True)
        elif kind in ("OneOf", "Extension"):  # groups in these belong to the message around
            yield from _of_elements(each.elements)
