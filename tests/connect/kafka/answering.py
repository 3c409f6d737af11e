"""Our answers to the questions, in the same JSON as Kafka's."""

from __future__ import annotations

import base64
from functools import cache
from typing import Any

from moldau.connect.config.infos import definition
from moldau.connect.config.model import ConfigModel
from moldau.connect.data import logical
from moldau.connect.java.dates import DatePatternError, SimpleDateFormat
from moldau.connect.java.regex import PatternError, Replacement, compiled
from moldau.connect.plugins import (
    Catalogue,
    PluginKind,
    TransformationStage,
    new_converter,
    new_header_converter,
)
from moldau.errors import ConfigError, MoldauError
from tests.connect.kafka.encoding import (
    record_json,
    record_of,
    schema_json,
    schema_of,
    value_json,
    value_of,
)

Question = dict[str, Any]
Answer = dict[str, Any]


@cache
def installed() -> Catalogue:
    return Catalogue.installed()


def answer(question: Question) -> Answer:
    """What ours says; `refused` for a config, `failed` for a record."""
    ask = _ASKS[question["ask"]]
    try:
        return ask(question)
    except (ConfigError, PatternError, DatePatternError) as error:
        return {"refused": str(error)}
    except MoldauError as error:
        return {"failed": str(error)}


def _transform(question: Question) -> Answer:
    cls = installed().find(PluginKind.TRANSFORMATION, question["class"]).cls
    transformation: Any = cls()
    transformation.configure(question["config"])
    record = TransformationStage("it", transformation).apply(record_of(question["record"]))
    return {"record": None if record is None else record_json(record)}


def _predicate(question: Question) -> Answer:
    cls = installed().find(PluginKind.PREDICATE, question["class"]).cls
    predicate: Any = cls()
    predicate.configure(question["config"])
    return {"is": predicate.test(record_of(question["record"]))}


def _write(question: Question) -> Answer:
    schema = schema_of(question["schema"])
    value = value_of(question["value"], schema)
    converter = new_converter(installed(), question["class"], question["config"], False)
    return {"bytes": _text(converter.from_connect_data("topic", None, schema, value))}


def _read(question: Question) -> Answer:
    converter = new_converter(installed(), question["class"], question["config"], False)
    schema, value = converter.to_connect_data("topic", None, _bytes(question["bytes"]))
    return {"schema": schema_json(schema), "value": value_json(value, schema)}


def _write_header(question: Question) -> Answer:
    schema = schema_of(question["schema"])
    value = value_of(question["value"], schema)
    converter = new_header_converter(installed(), question["class"], question["config"])
    return {"bytes": _text(converter.from_connect_header("topic", "key", schema, value))}


def _read_header(question: Question) -> Answer:
    converter = new_header_converter(installed(), question["class"], question["config"])
    schema, value = converter.to_connect_header("topic", "key", _bytes(question["bytes"]))
    return {"schema": schema_json(schema), "value": value_json(value, schema)}


def _text(data: bytes | None) -> str | None:
    return None if data is None else base64.b64encode(data).decode()


def _bytes(text: str | None) -> bytes | None:
    return None if text is None else base64.b64decode(text)


def _regex(question: Question) -> Answer:
    pattern = compiled(question["pattern"])
    matches = pattern.fullmatch(question["text"]) is not None
    try:
        replaced = Replacement(question["replacement"], pattern).first(question["text"])
    except PatternError as error:
        return {"failed": str(error)}
    return {"matches": matches, "replaced": replaced}


def _format_date(question: Question) -> Answer:
    when = logical.timestamp_from_ms(question["ms"])
    return {"text": SimpleDateFormat(question["pattern"]).format(when)}


def _parse_date(question: Question) -> Answer:
    when = SimpleDateFormat(question["pattern"]).parse(question["text"])
    return {"ms": logical.timestamp_to_ms(when)}


def _definition(question: Question) -> Answer:
    keys = []
    for setting in model_of(question["class"]).settings():
        described = definition(setting)
        del described["documentation"]
        keys.append(described)
    return {"keys": keys}


def model_of(java_name: str) -> type[ConfigModel]:
    """The model that stands for a Java class with a ConfigDef."""
    from moldau.connect.config.connectors import SinkConfig, SourceConfig

    if java_name.endswith(".SinkConnectorConfig"):
        return SinkConfig
    if java_name.endswith(".SourceConnectorConfig"):
        return SourceConfig
    for kind in (
        PluginKind.TRANSFORMATION,
        PluginKind.PREDICATE,
        PluginKind.CONVERTER,
        PluginKind.HEADER_CONVERTER,
    ):
        for plugin in installed().all(kind):
            if java_name in plugin.cls.java_names:
                return plugin.cls.config_model
    raise AssertionError(f"nothing stands for {java_name}")


_ASKS = {
    "transform": _transform,
    "predicate": _predicate,
    "write": _write,
    "read": _read,
    "write header": _write_header,
    "read header": _read_header,
    "regex": _regex,
    "format date": _format_date,
    "parse date": _parse_date,
    "definition": _definition,
}
