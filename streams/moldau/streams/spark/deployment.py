"""Where an app on Spark runs: the settings that Spark connectors have too. Pure.

spark.master=spark://HOST:7077
spark.conf.executor.memory=2g      Spark's own spark.executor.memory
spark.packages=group:artifact:version,...
checkpoint.location=/shared/orders
spark.batch.records.max=500000     of a task and an input in one batch
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import field
from typing import Final

from moldau.config.file_problems import nearest
from moldau.deferred import dataclass
from moldau.streams.problems import StreamsError

MASTER: Final = "spark.master"
CHECKPOINT: Final = "checkpoint.location"
BATCH_RECORDS: Final = "spark.batch.records.max"
_BATCH_RECORDS: Final = 500_000
_CONF: Final = "spark.conf."
_PACKAGES: Final = "spark.packages"
_DEPLOY: Final = "spark.deploy"
_REMOTE: Final = "spark.remote"
_KNOWN: Final = (MASTER, CHECKPOINT, BATCH_RECORDS, _PACKAGES, _DEPLOY)
_NO_REMOTE: Final = (
    "an app needs a driver of its own, not Spark Connect: leave it out, and give "
    "spark.master, such as spark://HOST:7077"
)


@dataclass(frozen=True, slots=True)
class Deployment:
    """The master, Spark's own settings and the checkpoint of an app."""

    master: str | None = None
    checkpoint: str | None = None
    conf: Mapping[str, str] = field(default_factory=dict)


def is_deployment(name: str) -> bool:
    """Whether this setting says where an app runs, and is not one of its clients or stores."""
    return name.startswith("spark.") or name == CHECKPOINT


def deployment_problems(given: Mapping[str, str]) -> dict[str, str]:
    """Return what is wrong with these settings, by their names."""
    found = {}
    for name, text in given.items():
        if name == _REMOTE or (name == _DEPLOY and text in ("remote", "shared-local")):
            found[name] = f"{name}: {_NO_REMOTE}"
        elif name == _DEPLOY and text != "local":
            found[name] = f"{name}: the app's process is the driver: leave it out"
        elif name.startswith(f"{_CONF}spark."):
            rest = name.removeprefix(f"{_CONF}spark.")
            found[name] = f"{name}: leave out the second spark.: write {_CONF}{rest}"
        elif not name.startswith(_CONF) and name not in _KNOWN:
            known = ", ".join((*_KNOWN, f"{_CONF}NAME"))
            found[name] = f"{name} is not known{nearest(name, _KNOWN)} (known: {known})"
        elif name == BATCH_RECORDS and not _is_positive(text):
            found[name] = f"{name}: {text} is not a number of records, 1 or more"
    return found


def batch_records(given: Mapping[str, object]) -> int:
    """Return how many records of an input a task reads in one batch at most. Raise StreamsError if
    the setting is wrong."""
    text = str(given.get(BATCH_RECORDS, _BATCH_RECORDS))
    problems = deployment_problems({BATCH_RECORDS: text})
    if problems:
        raise StreamsError("; ".join(problems.values()))
    return int(text)


def _is_positive(text: str) -> bool:
    return text.isascii() and text.isdecimal() and int(text) > 0


def deployment_of(given: Mapping[str, str]) -> Deployment:
    """Return the deployment. Raise StreamsError if a setting is wrong."""
    problems = deployment_problems(given)
    if problems:
        raise StreamsError("; ".join(problems.values()))
    conf = {
        f"spark.{name.removeprefix(_CONF)}": text
        for name, text in given.items()
        if name.startswith(_CONF)
    }
    if given.get(_PACKAGES):
        both = (conf.get("spark.jars.packages", ""), given[_PACKAGES])
        conf["spark.jars.packages"] = ",".join(each for each in both if each)
    return Deployment(given.get(MASTER), given.get(CHECKPOINT), conf)
