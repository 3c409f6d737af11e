"""A streams group as an admin sees it: the tasks of each member, and the partitions they read."""

from __future__ import annotations

from moldau.client.group.descriptions import MemberTasks, streams_group
from moldau.link.metadata import TopicPartition
from moldau.protocol.messages import streams_group_describe as messages


def tasks(subtopology_id: str, *partitions: int) -> messages.TaskIds:
    return messages.TaskIds(subtopology_id=subtopology_id, partitions=list(partitions))


def assignment(*active: messages.TaskIds) -> messages.Assignment:
    return messages.Assignment(
        active_tasks=list(active), standby_tasks=[tasks("1", 1)], warmup_tasks=[tasks("0", 3)]
    )


def test_tasks_have_names_and_read_the_partitions_of_their_topics() -> None:
    internal = messages.TopicInfo(
        name="app-repartition", partitions=2, replication_factor=1, topic_configs=[]
    )
    subtopologies = [
        messages.Subtopology(
            subtopology_id=name,
            source_topics=sources,
            repartition_sink_topics=[],
            state_changelog_topics=[],
            repartition_source_topics=repartitions,
        )
        for name, sources, repartitions in (("0", ["lines"], []), ("1", [], [internal]))
    ]
    member = messages.Member(
        member_id="m",
        member_epoch=4,
        client_id="c",
        client_host="/h",
        topology_epoch=2,
        process_id="p",
        client_tags=[],
        task_offsets=[],
        task_end_offsets=[],
        assignment=assignment(tasks("0", 0, 1), tasks("1", 0)),
        target_assignment=assignment(tasks("0", 0)),
        is_classic=False,
    )
    found = streams_group(
        messages.DescribedGroup(
            error_code=0,
            group_id="app",
            group_state="Stable",
            group_epoch=5,
            assignment_epoch=5,
            topology=messages.Topology(epoch=2, subtopologies=subtopologies),
            members=[member],
        )
    )
    (described,) = found.members
    assert (found.type, found.epoch) == ("streams", 5)
    assert described.tasks == MemberTasks(
        ("0_0", "0_1", "1_0"), ("1_1",), ("0_3",), "p", 2, target_warmup=("0_3",)
    )
    assert described.assignment == (
        TopicPartition("lines", 0),
        TopicPartition("lines", 1),
        TopicPartition("app-repartition", 0),
    )
    assert described.target == (TopicPartition("lines", 0),)
    assert described.topics == ("app-repartition", "lines")
