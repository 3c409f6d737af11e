"""`moldau produce`: send lines of the input as records, or generated records as a load."""

from __future__ import annotations

from argparse import ArgumentParser, Namespace
from collections.abc import Callable, Coroutine, Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager
from itertools import takewhile
from typing import TYPE_CHECKING, Any, BinaryIO, Final

from moldau.cli.command import Context, Exit, UsageError
from moldau.cli.commands.cluster_connection import (
    OpenClient,
    add_connection_arguments,
    check_not_set,
    client_settings,
    named_values,
    naming_source,
    opened,
)
from moldau.cli.commands.produce_trouble import PATIENCE_S, Tally, Trouble
from moldau.cli.commands.registry_place import add_schemas, line_serde, take_registry
from moldau.cli.names import topic_name, typed_bytes, typed_name
from moldau.cli.output import write_json
from moldau.cli.progress import Progress
from moldau.cli.summaries import SUMMARIES
from moldau.errors import MoldauError

if TYPE_CHECKING:
    from random import Random

    from moldau.cli.commands.produce_json import JsonRecord
    from moldau.client import Producer
    from moldau.errors.codes import KafkaError
    from moldau.records import Headers
    from moldau.runtime import Runtime

_READ_BYTES: Final = 256 << 10
_CHUNK_RECORDS: Final = 10_000
_CHUNK_BYTES: Final = 4 << 20
_MADE_UP: Final = 1_000
_SIZE_DEFAULT: Final = 100
_ASKED_S: Final = 5.0
_SERIALIZERS: Final = frozenset(("key.serializer", "value.serializer"))
_SCHEMA_SETTINGS: Final = {"auto.register.schemas": "false", "use.latest.version": "true"}
"""Lines say what their values are, not of which schema: that is the latest one of the subject."""
"""The formats that lines of JSON can be written in."""
# A load needs large batches; a few lines do not.
_LOAD_SETTINGS: Final = {"batch.size": "262144", "buffer.memory": "67108864"}


class ProduceCommand:
    """Sends records from the input, or generated ones."""

    summary = SUMMARIES["produce"]

    def configure(self, parser: ArgumentParser, /) -> None:
        add_connection_arguments(
            parser,
            json_help="lines are as of consume --json; write how many were sent as JSON",
        )
        parser.add_argument("topic", metavar="TOPIC", type=topic_name)
        parser.add_argument("--keys", action="store_true", help="lines are key:value")
        parser.add_argument(
            "--separator", default=":", metavar="TEXT", help="between key and value (:)"
        )
        parser.add_argument(
            "--null", metavar="TEXT", help="a value that reads so is null: a tombstone"
        )
        parser.add_argument("--partition", type=int, help="send all to this partition")
        parser.add_argument(
            "--by-key",
            action="store_true",
            help="with --json: to the partition of the key, not to that of the line, for a topic "
            "with another number of partitions",
        )
        parser.add_argument(
            "--header",
            action="append",
            default=[],
            metavar="NAME=VALUE",
            help="of every record; again for more of them, in that order, of one name too",
        )
        parser.add_argument("--acks", choices=("0", "1", "all"), default="all")
        parser.add_argument(
            "--compression", choices=("none", "gzip", "snappy", "lz4", "zstd"), default="none"
        )
        add_schemas(parser)
        parser.add_argument("--count", type=int, metavar="N", help="make up N records as a load")
        parser.add_argument(
            "--size", type=int, metavar="BYTES", help=f"of each made-up value ({_SIZE_DEFAULT})"
        )

    def run(self, arguments: Namespace, context: Context, /) -> int:
        from moldau.client.settings.rows import OF_CONSUMERS_ALONE

        is_load = arguments.count is not None
        if arguments.size is not None and not is_load:
            raise UsageError("--size is for a load: give --count too")
        if arguments.json and not is_load and (arguments.keys or arguments.null is not None):
            raise UsageError("--json lines have keys and nulls: not with --keys or --null")
        if arguments.by_key and (not arguments.json or is_load or arguments.partition is not None):
            raise UsageError("--by-key is for lines of --json, and not with --partition")
        has_schema = arguments.key_schema is not None or arguments.value_schema is not None
        if has_schema and (arguments.json or is_load):
            raise UsageError("a schema is for lines of input: not with --json or --count")
        if arguments.key_schema is not None and not arguments.keys:
            raise UsageError("--key-schema is for lines with keys: give --keys too")
        if not arguments.separator:
            raise UsageError("--separator cannot be empty")
        if is_load and (arguments.count < 0 or (arguments.size or 0) < 0):
            raise UsageError("--count and --size cannot be negative")
        defaults = {"acks": arguments.acks, "compression.type": arguments.compression}
        settings = client_settings(
            arguments,
            context,
            {
                **defaults,
                **(_LOAD_SETTINGS if is_load else {}),
                **(_SCHEMA_SETTINGS if has_schema else {}),
            },
            useless=OF_CONSUMERS_ALONE | _SERIALIZERS,
        )
        check_not_set(settings, sorted(_SERIALIZERS))
        take_registry(arguments, context, settings)
        if is_load:
            from moldau.runtime.process import tune_allocator

            tune_allocator()
        with (
            naming_source(settings),
            opened(lambda runtime: _producer(arguments, settings, runtime)) as producer,
        ):
            progress = Progress(
                context,
                "sent",
                arguments.count,
                producer.runtime.clock.monotonic,
                is_alone=is_load or not context.source.isatty(),
            )
            out = _Out(arguments, producer, Trouble(progress, producer.client), progress, settings)
            with progress, out:
                if is_load:
                    _send_load(arguments, out, progress)
                elif arguments.json:
                    _send_documents(context, out, progress)
                else:
                    _send_lines(arguments, context, out, progress)
        if arguments.json:
            write_json(context.out, {"topic": arguments.topic, **progress.facts()})
        elif is_load or context.err.isatty():
            context.err.write(f"{progress.summary()}\n")
        return Exit.DONE


def _producer(arguments: Namespace, settings: dict[str, str], runtime: Runtime) -> Producer:
    """Return the producer. Raise UsageError for a `--size` that is too large, before any work."""
    from moldau.client.producer.producer import Producer
    from moldau.client.settings.producer import max_request_size

    client: Producer = Producer(
        settings,
        runtime=runtime,
        key_serializer=line_serde(arguments.key_schema),
        value_serializer=line_serde(arguments.value_schema),
    )
    bound = client.settings[max_request_size]
    if arguments.size is not None and arguments.size > bound:
        raise UsageError(
            f"--size {arguments.size} is more than a record may have: {bound} bytes, by "
            "max.request.size"
        )
    return client


class _Out(AbstractContextManager["_Out"]):
    """Sends records, and reports what delays their acknowledgement. Ctrl-C discards unacknowledged
    records at once, and reports how many were acknowledged."""

    def __init__(
        self,
        arguments: Namespace,
        producer: OpenClient[Producer],
        trouble: Trouble,
        progress: Progress,
        settings: dict[str, str],
    ) -> None:
        """`settings`: those that the user gave, with the command's own."""
        self.random = producer.runtime.random
        self._topic = arguments.topic
        self._partition = arguments.partition
        self._is_by_key: bool = arguments.by_key
        self._headers: Headers = tuple(
            (typed_name(name, "header"), typed_bytes(value))
            for name, value in named_values(arguments.header)
        )
        self._producer = producer
        self._trouble = trouble
        self._progress = progress
        self._count = arguments.count
        self._tally = Tally()
        self._reach = {name: settings[name] for name in ("bootstrap.servers", "client.id")}
        self._is_patient = "max.block.ms" in settings
        self._is_known = False

    def __exit__(self, kind: type[BaseException] | None, *_: object) -> None:
        if kind is not None and issubclass(kind, KeyboardInterrupt):
            self._producer.run(lambda client: client.aclose(abort=True))
            done = self._tally.acknowledged()
            of = "" if self._count is None else f" of {self._count:,}"
            self._progress.report(
                [f"moldau: interrupted: {done:,}{of} records were {self.flushed}"]
            )

    def send(
        self,
        values: Sequence[Any],
        keys: Sequence[Any] | None,
        records: Sequence[JsonRecord] = (),
    ) -> None:
        """Send records. Wait for the topic and for buffer space, but not for acknowledgements. With
        `records` each has headers, a timestamp and a partition of its own."""
        if not self._is_known:
            self._learn_topic()
            self._is_known = True

        headers: list[Headers] | None = [self._headers] * len(values) if self._headers else None
        partition: int | list[int | None] | None = self._partition
        if records:
            headers = [(*each.headers, *self._headers) for each in records]
            if partition is None and not self._is_by_key:
                partition = [each.partition for each in records]

        async def act(client: Producer) -> None:
            sent = await client.send_many(
                self._topic,
                values,
                keys=keys,
                headers=headers,
                partition=partition,
                timestamps_ms=[each.timestamp_ms for each in records] if records else None,
            )
            self._tally.add(sent.parts)

        self._run(act, self._trouble.report)

    def flush(self) -> None:
        """Wait until all records are acknowledged."""
        self._run(lambda client: client.flush(), self._trouble.report)

    @property
    def flushed(self) -> str:
        """The word for records after a flush: with acks=0 they were sent, not acknowledged."""
        from moldau.client.settings.producer import acks

        return "sent" if self._producer.client.settings[acks] == "0" else "acknowledged"

    def _learn_topic(self) -> None:
        """Wait until the topic is known, for `max.block.ms`. Unless the user set that, raise
        KafkaError if the cluster says after `PATIENCE_S` that there is no such topic: one that it
        creates by itself is there by then."""
        from moldau.cli.shell import within

        async def learn(client: Producer) -> object:
            return await within(PATIENCE_S, client.partitions(self._topic))

        if not self._is_patient:
            if self._producer.run(learn) is not None:
                return
            if self._producer.client.blind_for is None:
                self._check_topic()
        self._run(lambda client: client.partitions(self._topic), self._miss)

    def _check_topic(self) -> None:
        """Raise KafkaError if a broker says that there is no such topic. Another error or none may
        mean that the topic is being created, or that the broker is slow."""
        from moldau.cli.nearest import naming_nearest
        from moldau.cli.shell import within_or_later
        from moldau.client.admin.admin import Admin
        from moldau.errors.codes import ErrorCode, KafkaError

        topic, unknown = self._topic, ErrorCode.UNKNOWN_TOPIC_OR_PARTITION

        async def missing() -> KafkaError | None:
            async with Admin(self._reach, runtime=self._producer.runtime) as admin:
                answer = (await admin.describe_topics([topic]))[topic]
                if not isinstance(answer, KafkaError) or answer.code is not unknown:
                    return None
                reason = f"there is no topic {topic}, and the cluster creates none"
                error = KafkaError(unknown, f"{reason}: moldau topic create {topic}", topic=topic)
                return (await naming_nearest(admin, [error]))[0]

        error = self._producer.run(lambda _: within_or_later(_ASKED_S, missing()))
        if error is not None:
            raise error

    def _miss(self, seconds: float) -> None:
        self._trouble.miss(self._topic, seconds)

    def _run(
        self,
        action: Callable[[Producer], Coroutine[Any, Any, object]],
        report: Callable[[float], None],
    ) -> None:
        from moldau.cli.shell import patiently

        self._producer.run(lambda client: patiently(action(client), PATIENCE_S, report))


def _send_load(arguments: Namespace, out: _Out, progress: Progress) -> None:
    size = _SIZE_DEFAULT if arguments.size is None else arguments.size
    values = _made_up(out.random, size)
    chunk = max(1, min(_CHUNK_RECORDS, _CHUNK_BYTES // max(1, size)))
    values = (values * (chunk // len(values) + 1))[:chunk]
    keys: list[bytes | None] | None = None
    left = arguments.count
    while left > 0:
        if left < len(values):
            values = values[:left]
        if arguments.keys:
            keys = [
                b"key-%d" % (number % _MADE_UP) for number in range(left, left - len(values), -1)
            ]
        out.send(values, keys)
        left -= len(values)
        progress.add(len(values), len(values) * size)
    out.flush()


def _made_up(random: Random, size: int) -> list[bytes | None]:
    """Return different values of that size, JSON that compresses about as well as text."""
    noise = random.randbytes(size // 2 + _MADE_UP).hex().encode()
    made: list[bytes | None] = []
    for number in range(min(_MADE_UP, max(1, _CHUNK_BYTES // max(1, size)))):
        begin, end = b'{"number": %d, "text": "' % number, b'"}'
        room = size - len(begin) - len(end)
        if room < 0:  # too small for JSON
            made.append(noise[number : number + size])
            continue
        text = noise[number : number + size // 2] + b" moldau" * (size // 7 + 1)
        made.append(begin + text[:room] + end)
    return made


def _send_lines(arguments: Namespace, context: Context, out: _Out, progress: Progress) -> None:
    """Send the lines of the input. A line without its separator and later ones are not sent."""
    null = None if arguments.null is None else typed_bytes(arguments.null)
    separator = typed_bytes(arguments.separator)
    for lines in read_lines(context.source):
        good = lines
        keys: Sequence[bytes | None] | None = None
        values: list[bytes | None] = [*lines]
        if arguments.keys:
            good = list(takewhile(lambda line: separator in line, lines))
            keyed = [line.partition(separator) for line in good]
            keys = [key for key, _, _ in keyed]
            values = [value for _, _, value in keyed]
        sent = [None if value == null else value for value in values]
        if good:
            with _by_line(progress.records):
                out.send(sent, keys)
            progress.add(len(good), sum(map(len, good)))
        if len(good) < len(lines):
            out.flush()
            reason = f"line {progress.records + 1} has no {arguments.separator!r} for its key"
            raise UsageError(reason, **{out.flushed: progress.records})
    out.flush()


def _send_documents(context: Context, out: _Out, progress: Progress) -> None:
    """Send the lines of `moldau consume --json`. A wrong line and later ones are not sent."""
    from moldau.cli.commands.produce_json import parse_record

    for lines in read_lines(context.source):
        records: list[JsonRecord] = []
        wrong = None
        for line in lines:
            try:
                records.append(parse_record(line))
            except UsageError as error:
                wrong = error
                break
        if records:
            with _by_line(progress.records):
                out.send([each.value for each in records], [each.key for each in records], records)
            progress.add(len(records), sum(map(len, lines[: len(records)])))
        if wrong is not None:
            out.flush()
            reason = f"line {progress.records + 1} {wrong}"
            raise UsageError(reason, **{out.flushed: progress.records})
    out.flush()


@contextmanager
def _by_line(before: int) -> Iterator[None]:
    """Add to an error of the block the line that failed, and the lines that were not sent because
    of it. Leave out what is for programs: the type of a line, and the setting of its serializer."""
    from moldau.client.producer.bulk import Indices

    try:
        yield
    except MoldauError as error:
        facts = dict(error.context)
        at, left = facts.pop("at", None), facts.pop("left", None)
        if isinstance(at, int) and isinstance(left, Indices):
            lines = Indices(before + index + 1 for index in left)
            for name in ("accepted", "records", "setting", "type"):
                facts.pop(name, None)
            at = facts.pop("index", at)
            error.context = {**facts, "line": before + at + 1, "unsent_lines": lines}
        raise


def read_lines(source: BinaryIO) -> Iterator[list[bytes]]:
    """Yield lists of lines without their ends, as they arrive; the last line may lack its end."""
    read1 = getattr(source, "read1", source.read)
    begun: list[bytes] = []  # joined once: a long line arrives in thousands of pieces
    while data := read1(_READ_BYTES):
        first, *others = data.split(b"\n")
        begun.append(first)
        if others:
            lines = [b"".join(begun), *others]
            begun = [lines.pop()]
            yield [line.removesuffix(b"\r") for line in lines]
    rest = b"".join(begun)
    if rest:
        yield [rest.removesuffix(b"\r")]


command = ProduceCommand()
