"""Settings: one typed row each, with values from files, the environment and the command line.

    table = SettingTable([log_segment_bytes, ...])
    settings = table.resolve(load_file(files, "server.properties"), load_environment(variables))
    settings[log_segment_bytes]                        # an int, checked
    settings.source(log_segment_bytes)                 # server.properties, line 12

Invariants: values are checked before code can use them, all problems are reported together, and no
secret is ever part of a message. Loaders turn text into layers of plain text and do not know the
rows; the table interprets the text. So a setting means the same in all formats.
"""

from __future__ import annotations

from moldau.config.checks import (
    HTTP_URL,
    Check,
    at_least,
    at_most,
    between,
    either,
    every,
    exactly,
    list_of,
    matching,
    not_empty,
    one_of,
    one_of_ignoring_case,
    sendable,
)
from moldau.config.environment import (
    KAFKA_PREFIX,
    MOLDAU_PREFIX,
    load_assignments,
    load_environment,
    setting_name,
    variable_name,
)
from moldau.config.files import TextFiles, load_file, load_text
from moldau.config.given import GivenValue, Layer, Source, SourceKind, overrides
from moldau.config.kinds import (
    BOOLEAN,
    CLASS,
    DOUBLE,
    INT,
    LIST,
    LONG,
    PASSWORD,
    SHORT,
    STRING,
    Kind,
)
from moldau.config.problems import BadSettings, Problem
from moldau.config.reference import render_reference
from moldau.config.references import (
    ConfigProvider,
    DirectoryProvider,
    EnvironmentProvider,
    FileProvider,
    resolve_references,
)
from moldau.config.secret import Secret
from moldau.config.setting import (
    CLUSTER_WIDE,
    HIGH,
    INHERITED,
    LOW,
    PER_BROKER,
    REQUIRED,
    Absent,
    Fallback,
    Importance,
    Setting,
    UpdateMode,
    rows_in,
)
from moldau.config.settings import SettingDescription, Settings, Synonym
from moldau.config.table import Rule, SettingTable

__all__ = [
    "BOOLEAN", "CLASS", "CLUSTER_WIDE", "DOUBLE", "HIGH", "HTTP_URL", "INHERITED", "INT",
    "KAFKA_PREFIX", "LIST", "LONG", "LOW", "MOLDAU_PREFIX", "PASSWORD", "PER_BROKER", "REQUIRED",
    "SHORT", "STRING", "Absent", "BadSettings", "Check", "ConfigProvider", "DirectoryProvider",
    "EnvironmentProvider", "Fallback", "FileProvider", "GivenValue", "Importance", "Kind", "Layer",
    "Problem", "Rule", "Secret", "Setting", "SettingDescription", "SettingTable", "Settings",
    "Source", "SourceKind", "Synonym", "TextFiles", "UpdateMode", "at_least", "at_most", "between",
    "either", "every", "exactly", "list_of", "load_assignments", "load_environment", "load_file",
    "load_text", "matching", "not_empty", "one_of", "one_of_ignoring_case", "overrides",
    "render_reference", "resolve_references", "rows_in", "sendable", "setting_name",
    "variable_name",
]  # fmt: skip
