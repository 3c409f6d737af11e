"""Check the columns that the option `value.schema` or `key.schema` gives as DDL.

Spark parses the DDL as well, but it shows a parse error of the whole row schema, and neither the
option nor the field. So the types' names and the brackets are checked here; all that may follow a
type, such as `NOT NULL`, is left to Spark.
"""

from __future__ import annotations

import re
from typing import Final, NoReturn

from moldau.errors import ConfigError

_TOKEN: Final = re.compile(r"\s*(`(?:[^`]|``)*`|'(?:[^'\\]|\\.)*'|\"(?:[^\"\\]|\\.)*\"|\w+|\S)")
_STRUCT: Final = re.compile(r"\s*STRUCT\s*<(.*)>\s*", re.IGNORECASE | re.DOTALL)
_SCALAR: Final = re.compile(
    "BOOLEAN|TINYINT|BYTE|SMALLINT|SHORT|INT|INTEGER|BIGINT|LONG|FLOAT|REAL|DOUBLE|DATE|TIME|"
    "TIMESTAMP|TIMESTAMP_NTZ|TIMESTAMP_LTZ|STRING|CHARACTER|CHAR|VARCHAR|BINARY|DECIMAL|DEC|"
    "NUMERIC|VOID|INTERVAL|VARIANT|GEOMETRY|GEOGRAPHY"
)


def struct_ddl(text: str, option: str) -> str:
    """Return the type of a struct of these columns, as DDL. A text `STRUCT<...>` is accepted too.

    Raises ConfigError, which names the option and the field, for a type that Spark does not have.
    """
    inside = _STRUCT.fullmatch(text)
    columns = text if inside is None else inside[1]
    _Check(columns, option).fields(end="")
    return f"STRUCT<{columns}>"


class _Check:
    """Walks through the tokens of a list of columns."""

    def __init__(self, text: str, option: str) -> None:
        self._tokens = _TOKEN.findall(text)
        self._text = text
        self._option = option

    def fields(self, end: str, path: str = "") -> None:
        """Check the fields before the token `end`, and take it. The end of the text is empty."""
        if self._peek() == end:
            self._take()
            if not path:
                self._refuse("name at least one column and its type, as in: id BIGINT", path)
            return
        while True:
            name = self._take()
            field = f"{path}.{name}" if path else name
            if not re.fullmatch(r"`.*`|\w+", name):
                self._refuse("a column needs a name and a type, as in: id BIGINT", path or name)
            if self._peek() == ":":
                self._take()
            self._type(field)
            after = self._skip_to_end()
            if after == end:
                return
            if after != ",":
                self._refuse("a bracket is missing or left over", field)

    def _type(self, field: str) -> None:
        word = self._take().upper()
        if word in ("", ",", ">"):
            self._refuse("the column has no type, as in: id BIGINT", field)
        if word in ("ARRAY", "MAP", "STRUCT"):
            self._need("<", field)
            if word == "STRUCT":
                self.fields(">", field)
                return
            if word == "MAP":
                self._type(field)
                self._need(",", field)
            self._type(field)
            self._need(">", field)
        elif not _SCALAR.fullmatch(word):
            self._refuse(f"Spark has no type {word}", field)
        elif self._peek() == "(":
            while self._peek() not in (")", ""):
                self._take()
            self._need(")", field)

    def _skip_to_end(self) -> str:
        """Skip what may follow a type, and take the token after it: a comma, a bracket, or none."""
        while self._peek() not in (",", ">", ""):
            self._take()
        return self._take()

    def _need(self, token: str, field: str) -> None:
        if self._take() != token:
            self._refuse(f"`{token}` is missing in the type", field)

    def _peek(self) -> str:
        return str(self._tokens[0]) if self._tokens else ""

    def _take(self) -> str:
        return str(self._tokens.pop(0)) if self._tokens else ""

    def _refuse(self, why: str, field: str) -> NoReturn:
        raise ConfigError(why, option=self._option, field=field, value=self._text)
