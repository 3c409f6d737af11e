"""An internal topic, read to its end at each call, for tasks with a thread of their own."""

from __future__ import annotations

import logging
from collections.abc import Callable, Mapping

from moldau.client import KafkaError
from moldau.client.base.blocking import BlockingClient
from moldau.errors.codes import ErrorCode
from moldau.folds.topic import FoldTopic
from moldau.folds.topic_fold import Record, TopicFold
from moldau.mirror.clusters import Side, client_settings, consumer_settings
from moldau.runtime import Runtime

_log = logging.getLogger(__name__)


class TopicTail(BlockingClient):
    """The fold of a topic that may be made later; it is empty till then. It is not made here, as
    another connector does that. Tombstones are left out."""

    kind = "reader of an internal topic"

    def __init__(
        self,
        props: Mapping[str, str],
        side: Side,
        topic: str,
        replay: Callable[[bytes, bytes], object],
    ) -> None:
        """Connect. Raise KafkaError."""
        super().__init__(consumer_settings(props, side), {})
        name = f"moldau-mirror-{side}-admin"
        self._admin_settings = {"client.id": name, **client_settings(props, side, "admin")}
        self._side = side
        self._topic = FoldTopic(topic, f"the internal topic on the {side}")
        self._replay = replay
        self.start()

    async def _begin(self, runtime: Runtime) -> None:
        self._fold = TopicFold(
            runtime, self._given[0], self._topic, self._take, admin_settings=self._admin_settings
        )
        await self._fold.connect()

    def _take(self, record: Record) -> None:
        if record.key is not None and record.value is not None:
            self._replay(record.key, record.value)

    def read(self) -> None:
        """Replay what is new, up to the present end of the topic. Raise KafkaError."""
        self._call(self._read())

    async def _read(self) -> None:
        name = self._topic.name
        if not self._fold.is_assigned:
            found = (await self._fold.admin.describe_topics([name]))[name]
            if isinstance(found, KafkaError):
                if found.code is not ErrorCode.UNKNOWN_TOPIC_OR_PARTITION:
                    raise found
                _log.info("%s does not exist on the %s yet", name, self._side)
                return
            await self._fold.assign()
        try:
            await self._fold.catch_up()
        except TimeoutError as error:
            raise KafkaError(ErrorCode.REQUEST_TIMED_OUT, str(error)) from error

    def close(self) -> None:
        """Close the connections. May be called again."""
        self._check_may_close()
        self._end(self._fold.aclose())

    async def _drop(self) -> None:
        await self._fold.aclose()
