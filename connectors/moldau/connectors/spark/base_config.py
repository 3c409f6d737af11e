"""The settings that Spark's sink and source share: the session, the trigger, the checkpoint."""

from __future__ import annotations

import re
from abc import abstractmethod
from collections.abc import Iterable
from importlib import import_module
from typing import ClassVar, Final, Literal

from moldau.connect.api import ConfigModel, Problem, key
from moldau.errors import ConfigError
from moldau.spark.columns_ddl import struct_ddl
from moldau.spark.options import duration_ms
from moldau.spark.reach import is_master, is_remote

FILE_FORMATS: Final = ("parquet", "orc", "json", "csv")
_QUERY, _DATABASE, _SPARK = "Query", "Database", "Spark"
_PROCESSING: Final = re.compile(r"processing\s+(\S.*)", re.IGNORECASE)
_FUNCTION: Final = re.compile(r"\w+(\.\w+)*:\w+")
_COORDINATES: Final = re.compile(r"[^:,\s]+:[^:,\s]+:[^:,\s]+")
_STRUCT: Final = re.compile(r"\s*STRUCT\s*<", re.IGNORECASE)
_JARS_PACKAGES: Final = "spark.jars.packages"
_CONVERTERS: Final = ("key.converter", "value.converter", "header.converter")
_STAGES: Final = ("transforms", "predicates")
_OWN_TRANSFORMS: Final = ("transforms.sql", "transforms.python")


class SparkConfig(ConfigModel):
    """The settings of every connector that runs Spark."""

    open_prefixes: ClassVar[tuple[str, ...]] = ("spark.conf.", "kafka.")
    unsupported: ClassVar[dict[str, str]] = {}
    """Settings that are rejected. Each value says what to do in place of the setting."""
    converter_hint: ClassVar[str] = "use value.format"
    """What to use in place of a converter."""

    transforms_sql: str | None = key(
        "transforms.sql", None,
        doc="A query over the view `source`. A sink's has the columns of the value, and _topic, "
        "_partition, _offset, _timestamp and _key.", group=_QUERY,
    )  # fmt: skip
    transforms_python: str | None = key(
        "transforms.python", None,
        doc="`module:function`: a function that takes a DataFrame and returns one.", group=_QUERY,
    )  # fmt: skip
    trigger: str = key(
        "trigger", "processing 10 seconds",
        doc="`processing 10 seconds`: begin a batch at this interval. `available-now`: read what "
        "is available, then rest.", importance="high", group=_QUERY,
    )  # fmt: skip
    checkpoint_location: str = key(
        "checkpoint.location",
        doc="The directory for checkpoints; each connector has its own folder in it.",
        importance="high", group=_QUERY,
    )  # fmt: skip
    checkpoint_cleanup: bool = key(
        "checkpoint.cleanup", False,
        doc="Remove the connector's checkpoints when it is deleted. The rows and records that it "
        "has written stay.", group=_QUERY,
    )  # fmt: skip
    jdbc_url: str | None = key(
        "jdbc.url", None, doc="The address of the database.", group=_DATABASE
    )
    jdbc_user: str | None = key("jdbc.user", None, doc="The user of the database.", group=_DATABASE)
    jdbc_password: str | None = key(
        "jdbc.password", None, kind="PASSWORD", doc="The password of the user.", group=_DATABASE
    )
    deploy: Literal["local", "submit", "shared-local", "remote"] = key(
        "spark.deploy", "local",
        doc="Where the query runs. local: in a session of its own. submit: the same, started by "
        "bin/spark-submit of spark.home. shared-local: on one local Spark Connect server for all "
        "connectors. remote: on the server at spark.remote.", importance="high", group=_SPARK,
    )  # fmt: skip
    master: str = key(
        "spark.master", "local[*]", doc="Spark's master: local[2], spark://host:7077, k8s://...",
        group=_SPARK,
    )  # fmt: skip
    home: str | None = key(
        "spark.home", None,
        doc="The Spark installation for spark.deploy=submit. The default is that of SPARK_HOME, "
        "or PySpark's own.", group=_SPARK,
    )  # fmt: skip
    remote: str | None = key(
        "spark.remote", None, doc="The address of a Spark Connect server: sc://host:15002.",
        group=_SPARK,
    )  # fmt: skip
    packages: list[str] = key(
        "spark.packages", [],
        doc="Jars by their Maven coordinates, group:artifact:version. Spark downloads them with "
        "their dependencies. A server of spark.deploy=shared-local takes the jars of the "
        "connector that starts it.", group=_SPARK,
    )  # fmt: skip
    reader: str = key(
        "spark.reader", "auto", doc="auto or python: the client of this package reads the topics.",
        importance="low", group=_SPARK,
    )  # fmt: skip
    exactly_once: str = key(
        "exactly.once", "auto",
        doc="auto: the strongest guarantee of the format. The status shows which one. off: records "
        "are written without transactions, and those of a repeated batch again.",
        importance="low", group=_QUERY,
    )  # fmt: skip

    @property
    @abstractmethod
    def writes_in_transactions(self) -> bool:
        """Whether records are written by a streaming query, which `exactly.once` decides about."""

    @property
    def write_options(self) -> dict[str, str]:
        """Return the options of the data source for those records."""
        return {"exactlyOnce": "false"} if self.exactly_once == "off" else {}

    @property
    def guarantee_of_records(self) -> str:
        """The guarantee for each of those records."""
        if self.exactly_once == "off":
            return "at least once: a batch that is repeated is sent again"
        return (
            "exactly once: each task's records and the number of the batch are one transaction "
            "(read them with isolation.level=read_committed)"
        )

    @property
    def spark_conf(self) -> dict[str, str]:
        """Spark's own settings, by the names that Spark has for them."""
        conf = {f"spark.{name}": text for name, text in self.with_prefix("spark.conf.").items()}
        if self.packages:
            given = conf.get(_JARS_PACKAGES, "").split(",")
            named = [each.strip() for each in given if each.strip()]
            conf[_JARS_PACKAGES] = ",".join(dict.fromkeys([*named, *self.packages]))
        return conf

    @property
    def is_available_now(self) -> bool:
        """Whether the query ends after it has read the available records."""
        return self.trigger.strip().lower() in ("available-now", "once")

    @property
    def trigger_interval_ms(self) -> int:
        """The time between the starts of two batches."""
        found = _PROCESSING.fullmatch(self.trigger.strip())
        if found is None:
            raise ConfigError("use available-now, or processing 10 seconds", value=self.trigger)
        return duration_ms("trigger", found[1])

    @property
    @abstractmethod
    def guarantee(self) -> str:
        """The guarantee for each record if a process dies at any point."""

    def check(self) -> Iterable[Problem]:
        for name, instead in self.unsupported.items():
            if name in self.originals:
                yield Problem(name, f"{name} is not supported: {instead}")
        if not self.wrong & {"trigger"} and not self.is_available_now:
            try:
                assert self.trigger_interval_ms >= 0
            except ConfigError:
                yield Problem("trigger", f"use available-now, or processing 10 seconds, not "
                              f"{self.trigger!r}")  # fmt: skip
        if self.transforms_python and not _FUNCTION.fullmatch(self.transforms_python):
            yield Problem("transforms.python", f"write module:function, not "
                          f"{self.transforms_python!r}")  # fmt: skip
        yield from self._check_stages()
        yield from self._check_addresses()
        yield from self._check_packages()
        yield from self._check_fixed_settings()

    def _check_stages(self) -> Iterable[Problem]:
        """Report each transform, predicate and converter of Kafka Connect: Spark reads and writes
        the records, and does not call them."""
        for stage in _STAGES:
            given = [
                name
                for name, text in self.originals.items()
                if (name == stage and text.strip())
                or (name.startswith(f"{stage}.") and name not in _OWN_TRANSFORMS)
            ]
            if given:
                yield Problem(
                    stage if stage in given else given[0],
                    f"Spark does not run the {stage} of Kafka Connect ({', '.join(given)}): use "
                    "transforms.sql or transforms.python",
                )
        for converter in _CONVERTERS:
            given = [
                name
                for name in self.originals
                if name == converter or name.startswith(f"{converter}.")
            ]
            if given:
                yield Problem(
                    converter if converter in given else given[0],
                    f"Spark does not use {', '.join(given)}: {self.converter_hint}",
                )

    def _check_addresses(self) -> Iterable[Problem]:
        """Check the forms of `spark.master` and `spark.remote`, and the names of `spark.conf.`."""
        if self.deploy == "remote":
            if not self.remote:
                yield Problem("spark.remote", "spark.deploy=remote needs it: sc://host:15002")
            elif not is_remote(self.remote):
                # The text after the first `;` may be a token: leave it out.
                shown = self.remote.partition(";")[0]
                yield Problem(
                    "spark.remote",
                    "this is no address of a Spark Connect server: use sc://host:15002, not "
                    f"{shown!r}",
                )
        elif not is_master(self.master):
            yield Problem(
                "spark.master",
                "this is no Spark master: use local[2], local[*], spark://host:7077, k8s://... or "
                f"yarn, not {self.master!r}",
            )
        for name in self.originals:
            if name.startswith("spark.conf.spark."):
                yield Problem(
                    name, "leave out the second spark.: write "
                    f"spark.conf.{name.removeprefix('spark.conf.spark.')}",
                )  # fmt: skip

    def _check_packages(self) -> Iterable[Problem]:
        wrong = [each for each in self.packages if not _COORDINATES.fullmatch(each)]
        if wrong:
            yield Problem("spark.packages", f"write group:artifact:version, not {wrong[0]!r}")
        if self.packages and self.deploy == "remote":
            yield Problem(
                "spark.packages",
                "a server that runs already takes no jars: start it with them (--packages), and "
                "leave this setting out",
            )

    def _check_fixed_settings(self) -> Iterable[Problem]:
        """Check the settings that take one value only."""
        if self.reader == "jvm":
            yield Problem(
                "spark.reader",
                "topics are read by the client of this package, in Python: use auto, or leave this "
                "setting out",
            )
        elif self.reader not in ("auto", "python"):
            yield Problem("spark.reader", f"use auto or python, not {self.reader!r}")
        if self.exactly_once == "off":
            if not self.writes_in_transactions:
                yield Problem(
                    "exactly.once",
                    "the format decides what is promised, and less would not be faster: use auto, "
                    "or leave this setting out",
                )
        elif self.exactly_once != "auto":
            yield Problem("exactly.once", f"use auto, not {self.exactly_once!r}")


def check_columns(name: str, text: str) -> Iterable[Problem]:
    """Report columns that are no DDL, or have types that Spark does not know. `name` is the
    setting."""
    if text.lstrip().startswith(("{", "[")):
        yield Problem(
            name, "JSON is not read here: give the columns as Spark's DDL: id BIGINT, at TIMESTAMP"
        )
    elif _STRUCT.match(text):
        yield Problem(name, "leave out STRUCT<...>: give only its columns: id BIGINT, at TIMESTAMP")
    else:
        try:
            struct_ddl(text, name)
        except ConfigError as error:
            yield Problem(name, str(error))


def check_database(
    config: SparkConfig, option_prefix: str, *, is_written: bool = False
) -> Iterable[Problem]:
    """Report a `jdbc.url` that cannot be read, and options, which a database does not have. Only
    databases that the JDBC connectors know are written."""
    options = [name for name in config.originals if name.startswith(option_prefix)]
    if options:
        yield Problem(
            options[0],
            f"jdbc has no options ({', '.join(options)}): leave them out; what a driver takes is "
            "part of jdbc.url",
        )
    try:
        address = import_module("moldau.connectors.jdbc.address")
    except ImportError:
        return  # without SQLAlchemy, the runner reports that it is missing
    if config.jdbc_url:
        try:
            found = address.parse_address(config.jdbc_url)
            if is_written:
                import_module("moldau.connectors.jdbc.dialects").dialect_of(found.dialect)
        except ValueError as error:
            yield Problem("jdbc.url", str(error).replace("connection.url", "jdbc.url"))
