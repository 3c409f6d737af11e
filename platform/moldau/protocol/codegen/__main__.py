"""Prints the generated code of one message in one version."""

from __future__ import annotations

import sys

from moldau.errors.codes import KafkaError
from moldau.protocol.declare import Message
from moldau.protocol.messages import request_class, response_class
from moldau.protocol.schemas import schema_class

USAGE = "usage: python -m moldau.protocol.codegen MESSAGE [VERSION]"


def main(arguments: list[str]) -> int:
    """Print the reader and writer of a message; of its newest version if none is given."""
    if not 1 <= len(arguments) <= 2 or not all(text.isdecimal() for text in arguments[1:]):
        print(USAGE, file=sys.stderr)
        return 2
    try:
        codec = find(arguments[0]).codec
        version = int(arguments[1]) if arguments[1:] else codec.spec.versions.last
        reader = codec.reader_source(version)
        writer = codec.writer_source(version, apart=False)
    except KeyError:
        print(f"no message is called {arguments[0]!r}", file=sys.stderr)
        return 1
    except KafkaError as error:
        print(error, file=sys.stderr)
        return 1
    print(reader.text(), writer.text(), sep="\n", end="")
    return 0


def find(name: str) -> type[Message]:
    """Return the class of a message by its name. Raise KeyError if there is none."""
    if name.endswith("Request"):
        return request_class(name.removesuffix("Request"))
    if name.endswith("Response"):
        return response_class(name.removesuffix("Response"))
    return schema_class(name)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
