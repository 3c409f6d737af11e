"""Reads the settings of topics, brokers, groups or loggers."""

from __future__ import annotations

from moldau.protocol.declare import Request, Response, Struct, field
from moldau.protocol.types import Bool, Int8, Int16, Int32, String


class DescribeConfigsResource(Struct):
    """One resource to describe."""

    resource_type: Int8
    resource_name: String
    configuration_keys: list[String] | None


class DescribeConfigsRequest(
    Request, key=32, versions="1-4", flexible="4+", listeners=("broker", "controller")
):
    """The resources, and which of their settings (null means all)."""

    resources: list[DescribeConfigsResource]
    include_synonyms: Bool = field(default=False)
    # KIP-569
    include_documentation: Bool = field(since=3, default=False)


class DescribeConfigsSynonym(Struct):
    """Another place that the value could come from, in order of precedence."""

    name: String
    value: String | None
    source: Int8


class DescribeConfigsResourceResult(Struct):
    """One setting; a sensitive one has no value here."""

    name: String
    value: String | None
    read_only: Bool
    config_source: Int8 = field(default=-1, ignorable=True)
    is_sensitive: Bool
    synonyms: list[DescribeConfigsSynonym] = field(ignorable=True)
    config_type: Int8 = field(since=3, default=0, ignorable=True)
    documentation: String | None = field(since=3, default="", ignorable=True)


class DescribeConfigsResult(Struct):
    """One resource and its settings."""

    error_code: Int16
    error_message: String | None
    resource_type: Int8
    resource_name: String
    configs: list[DescribeConfigsResourceResult]


class DescribeConfigsResponse(Response, key=32, versions="1-4", flexible="4+"):
    """The settings, with where each value comes from."""

    throttle_time_ms: Int32 = field(default=0)
    results: list[DescribeConfigsResult]
