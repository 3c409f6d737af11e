"""DescribeLogDirs: the logs in each directory, and the failed directories (KIP-113, KIP-827)."""

from __future__ import annotations

from typing import Final, cast

from moldau.broker.api.node import Node
from moldau.broker.api.request import ApiRequest
from moldau.broker.controller.topic_names import METADATA_TOPIC
from moldau.broker.log.directory import LogDirectory
from moldau.broker.log.names import TopicPartition
from moldau.errors.codes import ErrorCode
from moldau.protocol.messages.describe_log_dirs import (
    DescribeLogDirsPartition,
    DescribeLogDirsRequest,
    DescribeLogDirsResponse,
    DescribeLogDirsResult,
    DescribeLogDirsTopic,
)

_UNKNOWN_BYTES: Final = -1
_ERROR_CODE_SINCE: Final = 3


def serve(node: Node, request: ApiRequest) -> None:
    """Answer with every directory, in the order of `log.dirs`, and the requested logs in it."""
    message = cast(DescribeLogDirsRequest, request.decode())
    asked: dict[TopicPartition, None] | None = None
    if message.topics is not None:
        asked = {
            TopicPartition(topic.topic, index): None
            for topic in message.topics
            for index in topic.partitions
        }
    directories = node.directories
    results = [_describe(node, each, asked) for each in directories.directories]
    results += [_out_of_service(path) for path in directories.unopened]
    request.answer(DescribeLogDirsResponse(results=results))


def _describe(
    node: Node, directory: LogDirectory, asked: dict[TopicPartition, None] | None
) -> DescribeLogDirsResult:
    if directory.failure is not None:
        return _out_of_service(directory.path)
    try:
        total_bytes = directory.files.total_bytes(directory.path)
        usable_bytes = directory.files.free_bytes(directory.path)
    except OSError:
        total_bytes = usable_bytes = _UNKNOWN_BYTES
    broker = node.image.brokers.by_id.get(node.node_id)
    cordoned = () if broker is None else broker.cordoned_log_dirs or ()
    return DescribeLogDirsResult(
        error_code=ErrorCode.NONE,
        log_dir=directory.path,
        topics=_topics(directory, asked),
        total_bytes=total_bytes,
        usable_bytes=usable_bytes,
        is_cordoned=directory.directory_id in cordoned,
    )


def _topics(
    directory: LogDirectory, asked: dict[TopicPartition, None] | None
) -> list[DescribeLogDirsTopic]:
    topics: dict[str, list[DescribeLogDirsPartition]] = {}
    logs, futures = directory.logs, directory.copies.futures
    for partition in logs if asked is None else asked:
        log = logs.get(partition)
        if log is not None and partition.topic != METADATA_TOPIC:
            topics.setdefault(partition.topic, []).append(
                DescribeLogDirsPartition(
                    partition_index=partition.partition,
                    partition_size=log.size_bytes,
                    offset_lag=max(0, log.high_watermark - log.log_end_offset),
                    is_future_key=False,
                )
            )
    for partition, future in futures.items():
        if asked is None or partition in asked:
            topics.setdefault(partition.topic, []).append(
                DescribeLogDirsPartition(
                    partition_index=partition.partition,
                    partition_size=future.size_bytes,
                    offset_lag=future.lag,
                    is_future_key=True,
                )
            )
    return [
        DescribeLogDirsTopic(name=name, partitions=partitions)
        for name, partitions in topics.items()
    ]


def _out_of_service(path: str) -> DescribeLogDirsResult:
    return DescribeLogDirsResult(error_code=ErrorCode.KAFKA_STORAGE_ERROR, log_dir=path, topics=[])
