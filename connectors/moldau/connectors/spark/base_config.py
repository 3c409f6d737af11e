"""The settings that Spark's sink and source share: the session, the trigger, the checkpoint."""

from __future__ import annotations

import re
from abc import abstractmethod
from collections.abc import Iterable
from typing import ClassVar, Final, Literal

from moldau.connect.api import ConfigModel, Problem, key
from moldau.errors import ConfigError
from moldau.spark.durations import duration_ms

FILES: Final = ("parquet", "orc", "json", "csv")
_QUERY, _DATABASE, _SPARK = "Query", "Database", "Spark"
_PROCESSING: Final = re.compile(r"processing\s+(\S.*)", re.IGNORECASE)


_FUNCTION: Final = re.compile(r"\w+(\.\w+)*:\w+")
_COORDINATES: Final = re.compile(r"[^:,\s]+:[^:,\s]+:[^:,\s]+")
_PACKAGES: Final = "spark.jars.packages"


class SparkConfig(ConfigModel):
    """What any connector that runs Spark is told."""

    open_prefixes: ClassVar[tuple[str, ...]] = ("spark.conf.", "kafka.")
    unsupported: ClassVar[dict[str, str]] = {}
    """Settings that change nothing, with what to do in place of them."""

    transforms_sql: str | None = key(
        "transforms.sql", None,
        doc="A query over the view `source`. A sink's has the columns of the value, and _topic, "
        "_partition, _offset, _timestamp and _key.",
        group=_QUERY,
    )  # fmt: skip
    transforms_python: str | None = key(
        "transforms.python", None,
        doc="`module:function`, which gets a DataFrame and gives one.", group=_QUERY,
    )  # fmt: skip
    trigger: str = key(
        "trigger", "processing 10 seconds",
        doc="`processing 10 seconds`, or `available-now`: read what is there, then rest.",
        importance="high", group=_QUERY,
    )  # fmt: skip
    checkpoint_location: str = key(
        "checkpoint.location",
        doc="The directory for checkpoints; each connector has its own folder in it.",
        importance="high", group=_QUERY,
    )  # fmt: skip
    is_cleaned: bool = key(
        "checkpoint.cleanup", False,
        doc="Remove the connector's checkpoints when it is deleted. What it has written stays.",
        group=_QUERY,
    )  # fmt: skip
    jdbc_url: str | None = key("jdbc.url", None, doc="The database.", group=_DATABASE)
    jdbc_user: str | None = key("jdbc.user", None, doc="The user of the database.", group=_DATABASE)
    jdbc_password: str | None = key(
        "jdbc.password", None, kind="PASSWORD", doc="The password.", group=_DATABASE
    )
    deploy: Literal["local", "submit", "shared-local", "remote"] = key(
        "spark.deploy", "local",
        doc="local: a session of the connector's own. submit: the same through bin/spark-submit of "
        "spark.home. shared-local: one local Spark Connect server for all connectors. remote: the "
        "server at spark.remote.",
        importance="high", group=_SPARK,
    )  # fmt: skip
    master: str = key(
        "spark.master", "local[*]", doc="Spark's master: local[2], spark://host:7077, k8s://...",
        group=_SPARK,
    )  # fmt: skip
    home: str | None = key(
        "spark.home", None,
        doc="The Spark installation of spark.deploy=submit; by default that of SPARK_HOME, or "
        "PySpark's own.",
        group=_SPARK,
    )  # fmt: skip
    remote: str | None = key(
        "spark.remote", None, doc="A Spark Connect server: sc://host:15002.", group=_SPARK
    )
    packages: list[str] = key(
        "spark.packages", [],
        doc="Jars by their Maven coordinates, group:artifact:version, which Spark downloads with "
        "all that they need. A server of spark.deploy=shared-local takes those of the connector "
        "that starts it.",
        group=_SPARK,
    )  # fmt: skip
    reader: str = key(
        "spark.reader", "auto",
        doc="auto or python: topics are read by the client of this package.",
        importance="low", group=_SPARK,
    )  # fmt: skip
    exactly_once: str = key(
        "exactly.once", "auto",
        doc="auto: as much as the format can promise; the status says what that is.",
        importance="low", group=_QUERY,
    )  # fmt: skip

    @property
    def spark_conf(self) -> dict[str, str]:
        """Spark's own settings, by its names."""
        found = {f"spark.{name}": text for name, text in self.with_prefix("spark.conf.").items()}
        if self.packages:
            named = [each.strip() for each in found.get(_PACKAGES, "").split(",") if each.strip()]
            found[_PACKAGES] = ",".join(dict.fromkeys([*named, *self.packages]))
        return found

    @property
    def is_finite(self) -> bool:
        """Whether the query ends when it has read what is there."""
        return self.trigger.strip().lower() in ("available-now", "once")

    @property
    def interval_ms(self) -> int:
        """Between the begins of two batches."""
        found = _PROCESSING.fullmatch(self.trigger.strip())
        if found is None:
            raise ConfigError("use available-now, or processing 10 seconds", value=self.trigger)
        return duration_ms("trigger", found[1])

    @property
    @abstractmethod
    def guarantee(self) -> str:
        """What is promised when a process dies at any point."""

    def check(self) -> Iterable[Problem]:
        for name, instead in self.unsupported.items():
            if name in self.originals:
                yield Problem(name, f"{name} is not supported: {instead}")
        if not self.wrong & {"trigger"} and not self.is_finite:
            try:
                assert self.interval_ms >= 0
            except ConfigError:
                yield Problem("trigger", f"use available-now, or processing 10 seconds, not "
                              f"{self.trigger!r}")  # fmt: skip
        if self.transforms_python and not _FUNCTION.fullmatch(self.transforms_python):
            yield Problem("transforms.python", f"write module:function, not "
                          f"{self.transforms_python!r}")  # fmt: skip
        if self.deploy == "remote" and not self.remote:
            yield Problem("spark.remote", "spark.deploy=remote needs it: sc://host:15002")
        yield from self._check_packages()
        yield from self._check_words()

    def _check_packages(self) -> Iterable[Problem]:
        wrong = [each for each in self.packages if not _COORDINATES.fullmatch(each)]
        if wrong:
            yield Problem("spark.packages", f"write group:artifact:version, not {wrong[0]!r}")
        if self.packages and self.deploy == "remote":
            yield Problem(
                "spark.packages",
                "a server that runs already takes no jars: start it with them (--packages), and "
                "leave this out",
            )

    def _check_words(self) -> Iterable[Problem]:
        """Settings with one answer."""
        if self.reader == "jvm":
            yield Problem(
                "spark.reader",
                "topics are read by the client of this package, in Python: use auto, or leave it "
                "out",
            )
        elif self.reader not in ("auto", "python"):
            yield Problem("spark.reader", f"use auto or python, not {self.reader!r}")
        if self.exactly_once == "off":
            yield Problem(
                "exactly.once",
                "the format decides what is promised, and less would not be faster: use auto, or "
                "leave it out",
            )
        elif self.exactly_once != "auto":
            yield Problem("exactly.once", f"use auto, not {self.exactly_once!r}")
