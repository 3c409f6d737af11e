"""The cluster as `moldau tier` asks it. The command itself comes with the broker, which knows what
the records of remote segments mean, and how their objects are opened."""

from __future__ import annotations

from argparse import Namespace
from collections.abc import Callable, Collection, Coroutine, Iterator, Mapping
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any, TypeVar

from moldau.cli.command import Context
from moldau.cli.commands.cluster_connection import OpenClient, client_settings, opened_admin
from moldau.errors.codes import KafkaError
from moldau.operations import tiers
from moldau.operations.tiers import METADATA_TOPIC, PartitionTiers, TierSurvey

if TYPE_CHECKING:
    from moldau.client import Admin, TopicPartition
    from moldau.runtime import Runtime

__all__ = ["METADATA_TOPIC", "PartitionTiers", "TierClient", "TierSurvey", "opened_tiers"]
T = TypeVar("T")


class TierClient:
    """A connected client; see `operations.tiers` for what its methods return."""

    def __init__(self, admin: OpenClient[Admin], settings: Mapping[str, object]) -> None:
        self._admin = admin
        self._settings = settings

    @property
    def runtime(self) -> Runtime:
        return self._admin.runtime

    def run(self, action: Callable[[], Coroutine[Any, Any, T]]) -> T:
        """Run what is no question to the cluster on the runtime of the client."""
        return self._admin.run(lambda _: action())

    def remote_topics(self) -> list[str]:
        return self._admin.run(tiers.remote_topics)

    def survey(self, topics: Collection[str]) -> TierSurvey:
        return self._admin.run(lambda client: tiers.survey(client, topics))

    def copy_now(self, where: TopicPartition) -> int | KafkaError:
        async def copied(client: Admin) -> int | KafkaError:
            try:
                return await tiers.copy_now(client, where)
            except KafkaError as error:
                return error

        return self._admin.run(copied)

    def pause(self, seconds: float) -> None:
        """Wait before the next question."""
        self.run(lambda: tiers.pause(seconds))

    def metadata_values(self) -> list[bytes]:
        return self._admin.run(
            lambda client: tiers.metadata_values(client, self._settings, self.runtime)
        )


@contextmanager
def opened_tiers(arguments: Namespace, context: Context) -> Iterator[TierClient]:
    """Connect to the cluster of these arguments, and disconnect at the end of the block."""
    with opened_admin(arguments, context) as admin:
        yield TierClient(admin, client_settings(arguments, context))
