"""A change of a rule reaches every node while clients ask all the time."""

from __future__ import annotations

import asyncio
from itertools import groupby

from moldau.client import Acl, AclFilter, Admin, NewTopic, SecurityAdmin
from moldau.errors.codes import ErrorCode
from moldau.protocol.acl_operations import AclOperation, AclPermission
from moldau.runtime import Runtime
from tests.broker.server.secure_houses import two_nodes
from tests.broker.server.wire import Wire
from tests.runtime.arena import HOST, play, until

CHANGES = 10
CLIENTS = 4
"""Of each node."""
GIVEN = {
    "listener.security.protocol.map": "CLIENTS:PLAINTEXT,CONTROLLER:PLAINTEXT",
    "authorizer.class.name": "standard",
    "allow.everyone.if.no.acl.found": "true",
}
DENY = Acl("User:ANONYMOUS", AclOperation.DESCRIBE, "t", permission=AclPermission.DENY)


async def code_of(wire: Wire) -> ErrorCode:
    """Ask whether the topic may be seen."""
    (topic,) = (await wire.metadata("t")).topics
    return ErrorCode(topic.error_code)


async def ask_on(wire: Wire, answers: list[bool]) -> None:
    """Ask again and again, once the node has heard of the topic."""
    while await code_of(wire) is ErrorCode.UNKNOWN_TOPIC_OR_PARTITION:
        pass
    while True:
        code = await code_of(wire)
        assert code in (ErrorCode.NONE, ErrorCode.TOPIC_AUTHORIZATION_FAILED)
        answers.append(code is ErrorCode.NONE)


def test_every_node_follows_each_change_once_and_none_goes_back() -> None:
    async def main(runtime: Runtime) -> None:
        async with two_nodes(runtime, "CLIENTS", GIVEN) as two:
            bootstrap = f"{HOST}:{two.broker.endpoints['CLIENTS'].port}"
            async with Admin(bootstrap_servers=bootstrap) as admin, asyncio.TaskGroup() as tasks:
                await admin.create_topic(NewTopic("t", 2, 2))
                first = await Wire.open(runtime, HOST, two.broker.endpoints["CLIENTS"].port)
                nodes = (await first.metadata("t")).brokers
                assert len(nodes) == 2
                wires = [
                    await Wire.open(runtime, each.host, each.port)
                    for each in nodes
                    for _ in range(CLIENTS)
                ]
                seen: list[list[bool]] = [[] for _ in wires]
                asking = [
                    tasks.create_task(ask_on(*each)) for each in zip(wires, seen, strict=True)
                ]
                for number in range(CHANGES):
                    if number % 2:
                        await SecurityAdmin(admin).delete_acls(AclFilter(name="t"))
                    else:
                        await SecurityAdmin(admin).create_acls([DENY])
                    may_see = bool(number % 2)
                    await until(lambda: all(each[-1:] == [may_see] for each in seen))  # noqa: B023
                for each in asking:
                    each.cancel()
                for wire in (first, *wires):
                    wire.close()
            for answers in seen:
                turns = [may_see for may_see, _ in groupby(answers)]
                expected = [bool(number % 2) for number in range(CHANGES)]
                assert turns in (expected, [True, *expected]), "no answer by an older rule"

    play("asyncio", main)
