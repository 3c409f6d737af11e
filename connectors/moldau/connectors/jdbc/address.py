"""Database addresses: `jdbc:` addresses as Java drivers read them, and SQLAlchemy's own URLs.

A connector config written for Java names its database as `jdbc:postgresql://host/db?ssl=true`.
`parse_address` converts it for SQLAlchemy and the Python driver. There is one table for each
database with the parameters of the Java driver: a parameter becomes a connection argument, or it is
dropped with a note. One that loads code or local files is an error.

An `Address` hides its password: `str(address)` and `repr(address)` are safe to log.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from dataclasses import field, replace
from typing import Any
from urllib.parse import parse_qsl, unquote

from sqlalchemy.engine import URL, make_url
from sqlalchemy.exc import ArgumentError

from moldau.deferred import dataclass

_WITHOUT_USERS = ("sqlite", "duckdb")


class AddressError(ValueError):
    """A connection.url that cannot be read. The text is one line and says what to write."""


@dataclass(frozen=True, slots=True)
class Address:
    """A database's address: SQLAlchemy's URL, the driver's arguments, and notes for the user.

    `on_connect` are statements that each new connection runs first. `reads` means that nothing is
    written, so a file has to exist. It is opened read-only if the database has such a mode.
    """

    url: URL
    arguments: Mapping[str, Any] = field(default_factory=dict, repr=False)
    on_connect: tuple[str, ...] = ()
    notes: tuple[str, ...] = ()
    reads: bool = False

    @property
    def file(self) -> str | None:
        """The path of a database that is a file; None for one in memory or on a server."""
        database = self.url.database or ""
        if self.dialect not in _FILES or not database or database.startswith(_IN_MEMORY):
            return None
        if "uri" not in self.url.query or not database.startswith("file:"):
            return database
        path = _path_of_uri(database)
        in_memory = self.url.query.get("mode") == "memory" or path in ("", _IN_MEMORY)
        return None if in_memory else path

    @property
    def is_locked_whole(self) -> bool:
        """Whether an open connection locks out writers of other processes, even when it is idle."""
        return self.dialect == "duckdb" and self.url.database != ":memory:"

    def for_reading(self) -> Address:
        """Return the address for reading only. Processes that only read can share a DuckDB file."""
        if not self.is_locked_whole:
            return replace(self, reads=True)
        return replace(self, reads=True, arguments={**self.arguments, "read_only": True})

    def for_writing(self) -> Address:
        """Return the address in the mode in which writers of this process open the file."""
        arguments = {name: self.arguments[name] for name in self.arguments if name != "read_only"}
        return replace(self, arguments=arguments)

    @property
    def dialect(self) -> str:
        """The database's name: postgresql, sqlite, mysql, mariadb, duckdb, mssql or oracle."""
        return self.url.get_backend_name()

    def with_login(self, user: str | None, password: str | None) -> Address:
        """Return the address with connection.user and connection.password, which have priority."""
        url = self.url
        if self.dialect in _WITHOUT_USERS and (user is not None or password is not None):
            note = (
                f"{self.dialect} has no users: connection.user and connection.password are unused"
            )
            return replace(self, notes=(*self.notes, note))
        if user is not None:
            url = url.set(username=user)
        if password is not None:
            url = url.set(password=password)
        return replace(self, url=url)

    def with_parameters(self, parameters: Mapping[str, str]) -> Address:
        """Return the address with `connection.<name>` settings, read as parameters of the URL."""
        if not parameters:
            return self
        refused = next((name for name in parameters if _REFUSED.search(name)), None)
        if refused:
            raise AddressError(f"connection.{refused} is refused: it loads code or local files")
        family = "mysql" if self.dialect == "mariadb" else self.dialect
        table = {"postgresql": _POSTGRES, "mysql": _MYSQL, "mssql": _MSSQL}.get(family, {})
        arguments, notes = _translate(family, table, parameters)
        given = {name: value for name, value in arguments.items() if value is not None}
        return replace(self, arguments={**self.arguments, **given}, notes=self.notes + notes)

    def __str__(self) -> str:
        return self.url.render_as_string(hide_password=True)


_FILES = ("sqlite", "duckdb")
_IN_MEMORY = ":memory:"
DRIVERS = {
    "postgresql": "postgresql+psycopg", "postgres": "postgresql+psycopg", "mysql": "mysql+pymysql",
    "mariadb": "mariadb+pymysql", "mssql": "mssql+pymssql", "oracle": "oracle+oracledb",
    "sqlite": "sqlite", "duckdb": "duckdb",
}  # fmt: skip
"""The Python driver for a URL without a driver."""

Argument = tuple[str, Any]
Mapped = Callable[[str], Argument]


def _as(name: str) -> Mapped:
    return lambda value: (name, value)


def _number(name: str, unit_ms: bool = False) -> Mapped:
    def mapped(value: str) -> Argument:
        number = int(value)
        return name, max(1, number // 1000) if unit_ms and number else number

    return mapped


def _when_true(name: str, then: Any, otherwise: Any) -> Mapped:
    return lambda value: (name, then if _is_true(value) else otherwise)


def _is_true(value: str) -> bool:
    return value.lower() in {"true", "yes", "1", "on", ""}


_TARGETS = {
    "any": "any", "primary": "primary", "master": "primary", "secondary": "standby",
    "slave": "standby", "preferSecondary": "prefer-standby", "preferSlave": "prefer-standby",
}  # fmt: skip
_POSTGRES: Mapping[str, Mapped] = {
    "ssl": _when_true("sslmode", "verify-full", "disable"),
    "sslmode": _as("sslmode"),
    "sslrootcert": _as("sslrootcert"),
    "sslcert": _as("sslcert"),
    "sslkey": _as("sslkey"),
    "sslpassword": _as("sslpassword"),
    "ApplicationName": _as("application_name"),
    "currentSchema": lambda value: ("options", f"-csearch_path={value}"),
    "options": _as("options"),
    "connectTimeout": _number("connect_timeout"),
    "loginTimeout": _number("connect_timeout"),
    "tcpKeepAlive": _when_true("keepalives", 1, 0),
    "targetServerType": lambda value: ("target_session_attrs", _TARGETS.get(value, value)),
    "channelBinding": _as("channel_binding"),
    "gssEncMode": _as("gssencmode"),
}
_MYSQL_SSL = {
    "DISABLED": None,
    "disable": None,
    "PREFERRED": None,
    "REQUIRED": {"check_hostname": False, "verify_mode": "none"},
    "trust": {"check_hostname": False, "verify_mode": "none"},
    "VERIFY_CA": {"check_hostname": False, "verify_mode": "required"},
    "verify-ca": {"check_hostname": False, "verify_mode": "required"},
    "VERIFY_IDENTITY": {"check_hostname": True, "verify_mode": "required"},
    "verify-full": {"check_hostname": True, "verify_mode": "required"},
}
_MYSQL: Mapping[str, Mapped] = {
    "useSSL": _when_true("ssl", _MYSQL_SSL["REQUIRED"], None),
    "requireSSL": _when_true("ssl", _MYSQL_SSL["REQUIRED"], None),
    "sslMode": lambda value: ("ssl", _MYSQL_SSL[value]),
    "connectTimeout": _number("connect_timeout", unit_ms=True),
    "socketTimeout": _number("read_timeout", unit_ms=True),
    "sessionVariables": lambda value: ("init_command", f"SET {value}"),
}
_MSSQL: Mapping[str, Mapped] = {
    "applicationName": _as("appname"),
    "loginTimeout": _number("login_timeout"),
    "socketTimeout": _number("timeout", unit_ms=True),
    "encrypt": _when_true("encryption", "require", "off"),
}

# Parameters that tune only Java's driver.
_JAVA_ONLY: Mapping[str, re.Pattern[str]] = {
    "postgresql": re.compile(
        "reWriteBatchedInserts|prepareThreshold|preparedStatementCache.*|socketTimeout|stringtype|"
        "defaultRowFetchSize|binaryTransfer|adaptiveFetch|loadBalanceHosts|hostRecheckSeconds|"
        "logUnclosedConnections|assumeMinServerVersion|autosave|cleanupSavepoints|"
        "escapeSyntaxCallMode|sslfactory"
    ),
    "mysql": re.compile(
        "rewriteBatchedStatements|useServerPrepStmts|cachePrepStmts|prepStmtCache.*|useCursorFetch|"
        "defaultFetchSize|allowPublicKeyRetrieval|useUnicode|characterEncoding|serverTimezone|"
        "connectionTimeZone|zeroDateTimeBehavior|autoReconnect|useLegacyDatetimeCode|"
        "allowMultiQueries|tinyInt1isBit|verifyServerCertificate|nullCatalogMeansCurrent|"
        "useBulkStmts"
    ),
    "mssql": re.compile(
        "trustServerCertificate|sendStringParametersAsUnicode|selectMethod|packetSize|"
        "responseBuffering|hostNameInCertificate|multiSubnetFailover|lastUpdateCount|"
        "useBulkCopyForBatchInsert"
    ),
    "oracle": re.compile("oracle\\..*"),
}
_NOTHING = re.compile("(?!)")
_REFUSED = re.compile(
    r"load_?extension|local_?infile|read_default_file|autoDeserialize|socketFactory|"
    r"enable_external_access|allowed_(paths|directories)",
    re.I,
)


def parse_address(text: str) -> Address:
    """Parse connection.url: `jdbc:...` as Java's drivers do, anything else as a SQLAlchemy URL."""
    text = text.strip()
    if not text:
        raise AddressError("connection.url is empty: write e.g. jdbc:postgresql://host:5432/db")
    refused = _REFUSED.search(text)
    if refused:
        raise AddressError(
            f"connection.url: {refused.group()!r} is refused, because it loads code or local files"
        )
    if not text.startswith("jdbc:"):
        return _native(text)
    subprotocol, _, rest = text.removeprefix("jdbc:").partition(":")
    parse = _SUBPROTOCOLS.get(subprotocol)
    if parse is None:
        known = ", ".join(f"jdbc:{name}:" for name in _SUBPROTOCOLS)
        raise AddressError(
            f"connection.url: no driver for jdbc:{subprotocol}: (known: {known}); "
            "a SQLAlchemy URL such as dialect+driver://host/db works as well"
        )
    return parse(rest)


def file_of(text: str) -> str | None:
    """Return the path of the file that a connection.url opens; None if there is none, or the
    address cannot be read."""
    try:
        return parse_address(text).file
    except AddressError:
        return None


def _path_of_uri(text: str) -> str:
    """Return the path that SQLite opens for `file:...`."""
    path = re.split(r"[?#]", text.removeprefix("file:"), maxsplit=1)[0]
    if path.startswith("//"):  # an authority, which must be empty or localhost
        path = "/" + path[2:].partition("/")[2]
    return unquote(path).partition("\0")[0]


def _native(text: str) -> Address:
    try:
        url = make_url(text)
    except (ArgumentError, ValueError):
        raise AddressError(
            "connection.url is neither jdbc:... nor a SQLAlchemy URL such as "
            "postgresql://user@host:5432/db"
        ) from None
    backend = url.drivername.partition("+")[0]
    if backend in _FILES and (url.host or url.username or url.password or url.port):
        raise AddressError(
            f"connection.url: {backend} is a file here, without host, user and password: write "
            f"{backend}:///folder/name, or {backend}:////folder/name from the root"
        )
    return Address(url.set(drivername=DRIVERS.get(url.drivername, url.drivername)))


def _postgres(rest: str) -> Address:
    location, _, query = rest.partition("?")
    parameters = dict(parse_qsl(query, keep_blank_values=True))
    user, password = parameters.pop("user", None), parameters.pop("password", None)
    if location.startswith("//"):
        authority, _, database = location[2:].partition("/")
    else:
        authority, database = "", location
    authority, login = _split_login(authority)
    hosts = [_host_and_port(each, 5432) for each in authority.split(",") if each]
    arguments, notes = _translate("postgresql", _POSTGRES, parameters)
    if len(hosts) > 1:
        arguments["host"] = ",".join(host for host, _ in hosts)
        arguments["port"] = ",".join(str(port) for _, port in hosts)
    host, port = hosts[0] if len(hosts) == 1 else (None, None)
    url = URL.create(
        DRIVERS["postgresql"],
        username=user or login[0],
        password=password or login[1],
        host=host,
        port=port,
        database=unquote(database) or None,
    )
    return Address(url, arguments, notes=notes)


def _mysql_like(driver: str) -> Callable[[str], Address]:
    def parse(rest: str) -> Address:
        location, _, query = rest.partition("?")
        parameters = dict(parse_qsl(query, keep_blank_values=True))
        user, password = parameters.pop("user", None), parameters.pop("password", None)
        if not location.startswith("//"):
            raise AddressError(f"connection.url: write jdbc:{driver}://host:3306/db")
        authority, _, database = location[2:].partition("/")
        authority, login = _split_login(authority)
        first, *others = authority.split(",")
        host, port = _host_and_port(first, 3306)
        arguments, notes = _translate("mysql", _MYSQL, parameters)
        if others:
            notes += (f"only the first host is used: {host}",)
        url = URL.create(
            DRIVERS[driver],
            username=user or login[0],
            password=password or login[1],
            host=host or "localhost",
            port=port,
            database=unquote(database) or None,
            query={"charset": "utf8mb4"},
        )
        return Address(url, {k: v for k, v in arguments.items() if v is not None}, notes=notes)

    return parse


def _sqlserver(rest: str) -> Address:
    location, *pairs = rest.removeprefix("//").split(";")
    parameters: dict[str, str] = dict(_pair(each) for each in pairs if "=" in each)
    user = parameters.pop("user", None) or parameters.pop("userName", None)
    password = parameters.pop("password", None)
    database = parameters.pop("databaseName", None) or parameters.pop("database", None)
    if _is_true(parameters.pop("integratedSecurity", "false")):
        raise AddressError("connection.url: integratedSecurity needs Windows; give user, password")
    server, _, instance = location.partition("\\")
    host, port = _host_and_port(server, 1433)
    host = parameters.pop("serverName", host)
    port = int(parameters.pop("portNumber", str(port)))
    if instance:
        host = f"{host}\\{instance.partition(':')[0]}"
    arguments, notes = _translate("mssql", _MSSQL, parameters)
    url = URL.create(
        DRIVERS["mssql"], user, password, host or "localhost", None if instance else port, database
    )
    return Address(url, arguments, notes=notes)


def _oracle(rest: str) -> Address:
    kind, _, location = rest.partition(":")
    if kind != "thin" or "@" not in location:
        raise AddressError(
            "connection.url: write jdbc:oracle:thin:@//host:1521/service or "
            "jdbc:oracle:thin:@host:1521:SID"
        )
    login, _, where = location.rpartition("@")
    user, _, password = login.partition("/")
    driver, name, secret = DRIVERS["oracle"], user or None, password or None
    if where.startswith("("):
        return Address(URL.create(driver, name, secret), {"dsn": where})
    where = where.removeprefix("tcp:").removeprefix("//")
    where, _, query = where.partition("?")
    _, notes = _translate("oracle", {}, dict(parse_qsl(query)))
    matched = re.fullmatch(r"([^:/]+)(?::(\d+))?(?:([:/])(.+))?", where)
    if matched is None:
        raise AddressError(f"connection.url: cannot read the Oracle address {where!r}")
    host, port, separator, service = matched.groups()
    if not port and not separator:
        return Address(URL.create(driver, name, secret), {"dsn": host}, notes=notes)
    query_of = {"service_name": service} if separator == "/" else {}
    sid = service if separator == ":" else None
    url = URL.create(driver, name, secret, host, int(port or 1521), sid, query_of)
    return Address(url, notes=notes)


def _sqlite(rest: str) -> Address:
    path, _, query = rest.partition("?")
    pragmas: list[str] = []
    arguments: dict[str, Any] = {}
    uri_parameters: dict[str, str] = {}
    for name, value in parse_qsl(query, keep_blank_values=True):
        if name == "busy_timeout":
            arguments["timeout"] = int(value) / 1000
        elif name in {"mode", "cache", "immutable"}:
            uri_parameters[name] = value
        elif re.fullmatch(r"\w+", name) and re.fullmatch(r"[\w.-]+", value):
            pragmas.append(f"PRAGMA {name}={value}")
        else:
            raise AddressError(f"connection.url: {name}={value} is no SQLite pragma")
    path = path.removeprefix("file:")
    if uri_parameters:
        path = f"file:{path}"
        uri_parameters["uri"] = "true"
    url = URL.create("sqlite", database=path or ":memory:", query=uri_parameters)
    return Address(url, arguments, on_connect=tuple(pragmas))


def _duckdb(rest: str) -> Address:
    path, *pairs = rest.split(";")
    config: dict[str, str] = dict(_pair(each) for each in pairs if "=" in each)
    arguments: dict[str, Any] = {}
    if _is_true(config.pop("duckdb.read_only", "false")):
        arguments["read_only"] = True
    if config:
        arguments["config"] = config
    return Address(URL.create("duckdb", database=path or ":memory:"), arguments)


_SUBPROTOCOLS: Mapping[str, Callable[[str], Address]] = {
    "postgresql": _postgres, "sqlite": _sqlite, "mysql": _mysql_like("mysql"),
    "mariadb": _mysql_like("mariadb"), "duckdb": _duckdb, "sqlserver": _sqlserver,
    "oracle": _oracle,
}  # fmt: skip


def _translate(
    database: str, table: Mapping[str, Mapped], parameters: Mapping[str, str]
) -> tuple[dict[str, Any], tuple[str, ...]]:
    """Return the Python driver's arguments for Java's parameters, and notes for dropped ones."""
    arguments: dict[str, Any] = {}
    notes: list[str] = []
    for name, value in parameters.items():
        mapped = table.get(name)
        if mapped is None:
            tunes_java = _JAVA_ONLY.get(database, _NOTHING).fullmatch(name)
            why = "it tunes Java's driver" if tunes_java else "it is not known"
            notes.append(f"connection.url: {name} is ignored, because {why}")
            continue
        try:
            argument, converted = mapped(value)
        except (KeyError, ValueError):
            raise AddressError(f"connection.url: {name}={value} is no valid value") from None
        if argument == "options" and "options" in arguments:
            converted = f"{arguments['options']} {converted}"
        arguments[argument] = converted
    return arguments, tuple(notes)


def _pair(text: str) -> tuple[str, str]:
    name, _, value = text.partition("=")
    return name.strip(), value.strip()


def _split_login(authority: str) -> tuple[str, tuple[str | None, str | None]]:
    login, at, place = authority.rpartition("@")
    if not at:
        return authority, (None, None)
    user, _, password = login.partition(":")
    return place, (unquote(user) or None, unquote(password) or None)


def _host_and_port(text: str, port: int) -> tuple[str, int]:
    bracketed = re.fullmatch(r"\[([^\]]+)\](?::(\d+))?", text)
    if bracketed:
        return bracketed[1], int(bracketed[2] or port)
    host, _, digits = text.partition(":")
    if digits and not digits.isdecimal():
        raise AddressError(f"connection.url: {digits!r} is no port")
    return host, int(digits or port)
