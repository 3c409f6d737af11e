"""Avro's rules of schema resolution: whether a reader's schema can read a writer's data. No IO.

Both schemas are parsed by fastavro: names are full names, and `named` has the schemas by name. A
pair of records that is being compared counts as compatible, so recursive schemas end.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

from moldau.values.compatibility import Difference, Work

_PROMOTIONS: Final[Mapping[str, tuple[str, ...]]] = {
    "long": ("int",),
    "float": ("int", "long"),
    "double": ("int", "long", "float"),
    "string": ("bytes",),
    "bytes": ("string",),
}
"""What each type of a reader can read besides itself."""
_RECORDS: Final = ("record", "error")


def differences(
    reader: Any,
    reader_names: Mapping[str, Any],
    writer: Any,
    writer_names: Mapping[str, Any],
    work: Work,
) -> list[Difference]:
    """Return why the reader's schema cannot read the writer's data; [] if it can. Raise
    TooMuchWork."""
    return _Comparison(reader_names, writer_names, work).compare(reader, writer, "")


class _Comparison:
    def __init__(
        self, reader_names: Mapping[str, Any], writer_names: Mapping[str, Any], work: Work
    ) -> None:
        self._work = work
        self._reader_names = reader_names
        self._writer_names = writer_names
        self._open: set[tuple[str, str]] = set()

    def compare(self, reader: Any, writer: Any, path: str) -> list[Difference]:
        """Compare two parts; `path` is where they are in the reader's schema."""
        self._work.spend()
        if isinstance(reader, str):
            reader = self._reader_names.get(reader, reader)
        if isinstance(writer, str):
            writer = self._writer_names.get(writer, writer)
        if isinstance(writer, list):
            return self._written_union(reader, writer, path)
        if isinstance(reader, list):
            return self._read_union(reader, writer, path)
        wanted, found = _type_of(reader), _type_of(writer)
        if wanted in _RECORDS and found in _RECORDS:
            return self._records(reader, writer, path)
        if wanted != found:
            return [] if found in _PROMOTIONS.get(wanted, ()) else [_mismatch(wanted, found, path)]
        if wanted == "array":
            return self.compare(reader["items"], writer["items"], f"{path}/items")
        if wanted == "map":
            return self.compare(reader["values"], writer["values"], f"{path}/values")
        if wanted == "enum":
            self._work.spend(len(writer["symbols"]) + len(reader["symbols"]))
            return _names(reader, writer, path) + _symbols(reader, writer, path)
        if wanted == "fixed":
            return _names(reader, writer, path) + _sizes(reader, writer, path)
        return []

    def _written_union(self, reader: Any, writer: list[Any], path: str) -> list[Difference]:
        """The reader must be able to read each branch."""
        found = []
        for index, branch in enumerate(writer):
            problems = self.compare(reader, branch, path)
            if problems and isinstance(reader, list):
                place = f"{path}/{index}"
                found.append(_missing_branch(self._name(branch, self._writer_names), place))
            else:
                found += problems
        return found

    def _read_union(self, reader: list[Any], writer: Any, path: str) -> list[Difference]:
        """One branch must be able to read the data."""
        if any(not self.compare(each, writer, path) for each in reader):
            return []
        return [_missing_branch(self._name(writer, self._writer_names), path)]

    def _records(
        self, reader: Mapping[str, Any], writer: Mapping[str, Any], path: str
    ) -> list[Difference]:
        pair = reader["name"], writer["name"]
        if pair in self._open:
            return []
        self._open.add(pair)
        try:
            return [*_names(reader, writer, path), *self._fields(reader, writer, path)]
        finally:
            self._open.discard(pair)

    def _fields(
        self, reader: Mapping[str, Any], writer: Mapping[str, Any], path: str
    ) -> list[Difference]:
        self._work.spend(len(writer["fields"]) + len(reader["fields"]))
        written = {each["name"]: each for each in writer["fields"]}
        found = []
        for index, field in enumerate(reader["fields"]):
            place = f"{path}/fields/{index}"
            names = (field["name"], *field.get("aliases", ()))
            match = next((written[each] for each in names if each in written), None)
            if match is not None:
                found += self.compare(field["type"], match["type"], f"{place}/type")
            elif "default" not in field:
                found.append(
                    Difference(
                        "READER_FIELD_MISSING_DEFAULT_VALUE",
                        place,
                        f"the field {field['name']} is missing in the data and has no default",
                    )
                )
        return found

    def _name(self, schema: Any, names: Mapping[str, Any]) -> str:
        schema = names.get(schema, schema) if isinstance(schema, str) else schema
        return _type_of(schema) if isinstance(schema, str) else schema.get("name", _type_of(schema))


def _type_of(schema: Any) -> str:
    if isinstance(schema, str):
        return schema
    kind = schema["type"]
    return kind if isinstance(kind, str) else _type_of(kind)


def _mismatch(wanted: str, found: str, path: str) -> Difference:
    return Difference("TYPE_MISMATCH", path or "/", f"the type {wanted} cannot read {found}")


def _missing_branch(name: str, path: str) -> Difference:
    return Difference("MISSING_UNION_BRANCH", path or "/", f"the union has no branch for {name}")


def _names(reader: Mapping[str, Any], writer: Mapping[str, Any], path: str) -> list[Difference]:
    """Compare names without their namespaces, as Avro does since 1.9, and aliases."""
    if _short(reader["name"]) == _short(writer["name"]):
        return []
    if writer["name"] in _aliases(reader):
        return []
    text = f"the name {reader['name']} is not {writer['name']}"
    return [Difference("NAME_MISMATCH", f"{path}/name", text)]


def _aliases(schema: Mapping[str, Any]) -> list[str]:
    space = str(schema["name"]).rpartition(".")[0]
    return [
        each if "." in each or not space else f"{space}.{each}"
        for each in schema.get("aliases") or ()
    ]


def _short(name: str) -> str:
    return name.rpartition(".")[2]


def _symbols(reader: Mapping[str, Any], writer: Mapping[str, Any], path: str) -> list[Difference]:
    known = set(reader["symbols"])
    missing = [each for each in writer["symbols"] if each not in known]
    if not missing or reader.get("default") in known:
        return []
    text = f"the enum has not the symbols {', '.join(missing)}"
    return [Difference("MISSING_ENUM_SYMBOLS", f"{path}/symbols", text)]


def _sizes(reader: Mapping[str, Any], writer: Mapping[str, Any], path: str) -> list[Difference]:
    if reader["size"] == writer["size"]:
        return []
    text = f"the size {reader['size']} is not {writer['size']}"
    return [Difference("FIXED_SIZE_MISMATCH", f"{path}/size", text)]
