"""AlterReplicaLogDirs on a broker with one directory: what stays, and what is refused."""

from __future__ import annotations

from moldau.protocol.messages.alter_replica_log_dirs import (
    AlterReplicaLogDir,
    AlterReplicaLogDirsRequest,
    AlterReplicaLogDirTopic,
)
from moldau.protocol.messages.describe_log_dirs import DescribeLogDirsRequest
from tests.differential.requests import batch
from tests.differential.talk import Talk, versions

ALL = versions(AlterReplicaLogDirsRequest)


def move(path: str, *places: tuple[str, list[int]]) -> AlterReplicaLogDirsRequest:
    topics = [AlterReplicaLogDirTopic(name=name, partitions=at) for name, at in places]
    return AlterReplicaLogDirsRequest(dirs=[AlterReplicaLogDir(path=path, topics=topics)])


async def scenario(talk: Talk) -> None:
    await talk.topic("t", 2)
    await talk.write("t", batch(3))
    here = talk.peer.data
    for label, request in {
        "to where it is": move(here, ("t", [0, 1])),
        "to nowhere": move(f"{here}/../nowhere", ("t", [0])),
        "to a relative path": move("data", ("t", [0])),
        "to no path": move("", ("t", [0])),
        "an unknown topic": move(here, ("nope", [0])),
        "an unknown topic to nowhere": move("/nowhere", ("nope", [0])),
        "an unknown partition": move(here, ("t", [9])),
        "several": move(here, ("t", [0, 9]), ("nope", [0])),
        "a partition twice": move(here, ("t", [0, 0])),
        "nothing": AlterReplicaLogDirsRequest(dirs=[]),
        "no topics": move(here),
    }.items():
        await talk.ask(label, request, ALL)
    await talk.ask("described", DescribeLogDirsRequest(topics=None))
    # One that is not there yet may be told where to begin.
    await talk.ask("before it is there", move(here, ("later", [0])), ALL)
    await talk.topic("later")
    await talk.ask("described with it", DescribeLogDirsRequest(topics=None))
