"""The settings that source and sink share: the connection, names and time zones."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from datetime import UTC, tzinfo
from typing import ClassVar, Literal
from zoneinfo import ZoneInfo, ZoneInfoNotFoundError

from pydantic import SecretStr

from moldau.connect.api import ConfigModel, Problem, key
from moldau.connectors.jdbc.address import Address, AddressError, file_of, parse_address
from moldau.connectors.jdbc.dialects import Dialect, dialect_of

_OWN = frozenset({"url", "user", "password", "attempts", "backoff.ms"})
DEFAULT_CREDENTIALS = "io.confluent.connect.jdbc.util.DefaultJdbcCredentialsProvider"


class DatabaseConfig(ConfigModel):
    """The settings of the connection. `connection.<anything>` goes to the driver."""

    open_prefixes: ClassVar[tuple[str, ...]] = ("connection.", "jdbc.credentials.provider.")

    url: str = key(
        "connection.url",
        doc="Address of the database: jdbc:postgresql://host:5432/db, or a SQLAlchemy URL.",
        importance="high", group="Connection", width="long",
    )  # fmt: skip
    user: str | None = key(
        "connection.user", None, doc="User of the database.", importance="high", group="Connection"
    )
    password: SecretStr | None = key(
        "connection.password", None, doc="Its password.", importance="high", group="Connection"
    )
    attempts: int = key(
        "connection.attempts", 3, doc="How often to try to connect before giving up.",
        importance="low", group="Connection", ge=1,
    )  # fmt: skip
    backoff_ms: int = key(
        "connection.backoff.ms", 10_000, doc="Milliseconds between two attempts to connect.",
        importance="low", group="Connection", kind="LONG", ge=0,
    )  # fmt: skip
    dialect_name: str = key(
        "dialect.name", "", doc="Name of the dialect; empty takes it from connection.url.",
        importance="low", group="Connection",
    )  # fmt: skip
    credentials: str = key(
        "jdbc.credentials.provider.class", DEFAULT_CREDENTIALS,
        doc="Java's credentials providers do not run here: use ${env:...} or ${file:...}.",
        importance="low", group="Connection", kind="CLASS",
    )  # fmt: skip
    zone_name: str = key(
        "db.timezone", "UTC", doc="What columns mean that hold a time without a zone.",
        importance="medium", group="Connection",
    )  # fmt: skip
    quotes: Literal["always", "never"] = key(
        "quote.sql.identifiers", "always", doc="Whether names of tables and columns are quoted.",
        importance="medium", group="Connection", also=("sql.quote.identifiers",),
    )  # fmt: skip
    calendar: Literal["LEGACY", "PROLEPTIC_GREGORIAN"] = key(
        "date.calendar.system", "LEGACY",
        doc="Accepted; Python's calendar is the proleptic Gregorian one.", importance="low",
        group="Connection",
    )  # fmt: skip

    @classmethod
    def renamed(cls, props: Mapping[str, str | None]) -> dict[str, str | None]:
        """Translate the true and false of Aiven's sql.quote.identifiers."""
        given = super().renamed(props)
        words = {"true": "always", "false": "never"}
        quotes = given.get("quote.sql.identifiers")
        if quotes is not None:
            given["quote.sql.identifiers"] = words.get(quotes.strip().lower(), quotes)
        return given

    def check(self) -> Iterable[Problem]:
        if "connection.url" not in self.wrong:
            try:
                dialect = self.dialect_name or self.address().dialect
                dialect_of(_backend(dialect))
            except AddressError as error:
                yield Problem("connection.url", str(error))
            except ValueError as error:
                yield Problem("dialect.name" if self.dialect_name else "connection.url", str(error))
        if self.credentials != DEFAULT_CREDENTIALS:
            yield Problem(
                "jdbc.credentials.provider.class",
                "Java's credentials providers do not run here: use a config provider, such as "
                "${env:DB_PASSWORD} or ${file:/path:key}",
            )
        try:
            self.zone()
        except (ZoneInfoNotFoundError, ValueError, OSError):
            yield Problem("db.timezone", f"no time zone is called {self.zone_name!r}")

    def address(self) -> Address:
        """Return the database's address, with user, password and the driver's parameters."""
        extra = {
            name: value
            for name, value in self.with_prefix("connection.").items()
            if name not in _OWN
        }
        secret = self.password.get_secret_value() if self.password is not None else None
        return parse_address(self.url).with_login(self.user, secret).with_parameters(extra)

    def dialect(self) -> Dialect:
        backend = _backend(self.dialect_name) if self.dialect_name else self.address().dialect
        return dialect_of(backend, quotes=self.quotes == "always")

    def zone(self) -> tzinfo:
        return UTC if self.zone_name in ("UTC", "GMT", "Z") else ZoneInfo(self.zone_name)


def database_files(props: Mapping[str, str]) -> dict[str, str]:
    """Return connection.url with the path of its database, if that is a file."""
    file = file_of(props.get("connection.url", ""))
    return {} if file is None else {"connection.url": file}


def _backend(name: str) -> str:
    """Return the backend of a dialect name: `PostgreSqlDatabaseDialect` -> `postgresql`."""
    short = name.rpartition(".")[2].removesuffix("DatabaseDialect").lower()
    return {"sqlserver": "mssql"}.get(short, short)
