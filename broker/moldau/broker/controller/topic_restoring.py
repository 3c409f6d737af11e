"""RestoreTopic: a topic with the id and the leader epochs that it had in another cluster.

The topic is marked by a setting that no user can set: only RestoreTopic writes it, and its removal
(IncrementalAlterConfigs, as of any setting) ends the restore. A topic that is there with the id of
the request is left as it is, so a restore may ask again.

Restored batches name producer ids of the other cluster. Here those must not be given out again: a
new producer would be taken for an old one, and its first batches for duplicates. So the next block
begins above them, and brokers drop the blocks that they hold.
"""

from __future__ import annotations

from moldau.broker.controller.image import Image
from moldau.broker.controller.log_room import LogRoom
from moldau.broker.controller.outcome import DecisionInputs, Outcome, check_record_count
from moldau.broker.controller.rules import Rules
from moldau.broker.controller.topic_creation import Origin, create_topic
from moldau.broker.replication.topic_config import RESTORING
from moldau.errors.codes import ErrorCode, KafkaError
from moldau.ids import ZERO_UUID
from moldau.protocol.declare import MetadataRecord
from moldau.protocol.messages.create_topics import CreatableTopic, CreatableTopicConfig
from moldau.protocol.messages.restore_topic import RestoreTopicRequest, RestoreTopicResponse
from moldau.protocol.schemas.metadata_log import ProducerIdsRecord


def restore_topic(
    image: Image, rules: Rules, request: RestoreTopicRequest, inputs: DecisionInputs
) -> Outcome[RestoreTopicResponse]:
    """Create the topic, unless it is there. Raise KafkaError if it cannot be created."""
    known = image.topics.by_name(request.name)
    if known is not None and known.topic_id == request.topic_id:
        is_restoring = RESTORING in image.configs.of_topic(request.name)
        return Outcome((), RestoreTopicResponse(error_code=0, is_restoring=is_restoring))
    if request.topic_id == ZERO_UUID or request.topic_id in image.topics.by_id:
        raise KafkaError(ErrorCode.INVALID_REQUEST, "another topic has this id")
    topic = CreatableTopic(
        name=request.name,
        num_partitions=len(request.leader_epochs),
        replication_factor=request.replication_factor,
        assignments=[],
        configs=[
            CreatableTopicConfig(name=each.name, value=each.value) for each in request.configs
        ],
    )
    origin = Origin(request.topic_id, request.leader_epochs, {RESTORING: "true"})
    room = LogRoom(rules.node_id, inputs.open_files)
    created, _ = create_topic(image, rules, topic, inputs, room, origin)
    records: list[MetadataRecord] = list(created)
    if request.producer_id_end > image.producer_ids.next_id:
        records.append(ProducerIdsRecord(broker_id=-1, next_producer_id=request.producer_id_end))
    check_record_count(records)
    return Outcome(tuple(records), RestoreTopicResponse(error_code=0, is_restoring=True))
