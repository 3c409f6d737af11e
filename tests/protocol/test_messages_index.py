"""The index of APIs: cheap to import, complete, and true to what Kafka offers.

The table is our own, taken from the notes on Kafka and not from its schemas, so that it holds
on machines without them: key, name, versions, flexible versions, listeners (b broker,
c controller), and whether the newest version is still unstable.
"""

from __future__ import annotations

import subprocess
import sys

import pytest

from moldau.protocol.messages import API, RESERVED, api, request_class, response_class
from moldau.protocol.schemas import schema_class, schema_names
from moldau.protocol.versions import parse_versions

KAFKA = """
0 Produce 3-13 9+ b
1 Fetch 4-18 12+ bc
2 ListOffsets 1-11 6+ b
3 Metadata 0-13 9+ b
8 OffsetCommit 2-10 8+ b
9 OffsetFetch 1-10 6+ b
10 FindCoordinator 0-6 3+ b
11 JoinGroup 0-9 6+ b
12 Heartbeat 0-4 4+ b
13 LeaveGroup 0-5 4+ b
14 SyncGroup 0-5 4+ b
15 DescribeGroups 0-6 5+ b
16 ListGroups 0-5 3+ b
17 SaslHandshake 0-1 none bc
18 ApiVersions 0-5 3+ bc
19 CreateTopics 2-7 5+ bc
20 DeleteTopics 1-6 4+ bc
21 DeleteRecords 0-2 2+ b
22 InitProducerId 0-6 2+ b unstable
23 OffsetForLeaderEpoch 2-4 4+ b
24 AddPartitionsToTxn 0-5 3+ b
25 AddOffsetsToTxn 0-4 3+ b
26 EndTxn 0-5 3+ b
27 WriteTxnMarkers 1-2 1+ b
28 TxnOffsetCommit 0-6 3+ b
29 DescribeAcls 1-3 2+ bc
30 CreateAcls 1-3 2+ bc
31 DeleteAcls 1-3 2+ bc
32 DescribeConfigs 1-4 4+ bc
33 AlterConfigs 0-2 2+ bc
34 AlterReplicaLogDirs 1-2 2+ b
35 DescribeLogDirs 1-5 2+ b
36 SaslAuthenticate 0-2 2+ bc
37 CreatePartitions 0-3 2+ bc
38 CreateDelegationToken 1-3 2+ bc
39 RenewDelegationToken 1-2 2+ bc
40 ExpireDelegationToken 1-2 2+ bc
41 DescribeDelegationToken 1-3 2+ bc
42 DeleteGroups 0-3 2+ b
43 ElectLeaders 0-2 2+ bc
44 IncrementalAlterConfigs 0-1 1+ bc
45 AlterPartitionReassignments 0-1 0+ bc
46 ListPartitionReassignments 0 0+ bc
47 OffsetDelete 0 none b
48 DescribeClientQuotas 0-1 1+ b
49 AlterClientQuotas 0-1 1+ bc
50 DescribeUserScramCredentials 0 0+ bc
51 AlterUserScramCredentials 0 0+ bc
52 Vote 0-2 0+ c
53 BeginQuorumEpoch 0-1 1+ c
54 EndQuorumEpoch 0-1 1+ c
55 DescribeQuorum 0-2 0+ bc
56 AlterPartition 2-3 0+ c
57 UpdateFeatures 0-2 0+ bc
58 Envelope 0 0+ c
59 FetchSnapshot 0-1 0+ c
60 DescribeCluster 0-2 0+ bc
61 DescribeProducers 0 0+ b
62 BrokerRegistration 0-4 0+ c
63 BrokerHeartbeat 0-2 0+ c
64 UnregisterBroker 0 0+ bc
65 DescribeTransactions 0 0+ b
66 ListTransactions 0-2 0+ b
67 AllocateProducerIds 0 0+ c
68 ConsumerGroupHeartbeat 0-1 0+ b
69 ConsumerGroupDescribe 0-1 0+ b
70 ControllerRegistration 0 0+ c
71 GetTelemetrySubscriptions 0 0+ b
72 PushTelemetry 0 0+ b
73 AssignReplicasToDirs 0 0+ c
74 ListConfigResources 0-1 0+ b
75 DescribeTopicPartitions 0 0+ b
76 ShareGroupHeartbeat 1 0+ b
77 ShareGroupDescribe 1 0+ b
78 ShareFetch 1-2 0+ b
79 ShareAcknowledge 1-2 0+ b
80 AddRaftVoter 0-1 0+ cb
81 RemoveRaftVoter 0 0+ cb
82 UpdateRaftVoter 0 0+ c
83 InitializeShareGroupState 0 0+ b
84 ReadShareGroupState 0 0+ b
85 WriteShareGroupState 0-1 0+ b
86 DeleteShareGroupState 0 0+ b
87 ReadShareGroupStateSummary 0-1 0+ b
88 StreamsGroupHeartbeat 0-1 0+ b
89 StreamsGroupDescribe 0-1 0+ b
90 DescribeShareGroupOffsets 0-1 0+ b
91 AlterShareGroupOffsets 0 0+ b
92 DeleteShareGroupOffsets 0 0+ b
93 StreamsGroupTopologyDescriptionUpdate 0 0+ b
94 UnregisterController 0 0+ bc
"""

LISTENERS = {"b": "broker", "c": "controller"}
ROWS = [line.split() for line in KAFKA.split("\n") if line]


def modules_after(statements: str) -> set[str]:
    """What a fresh interpreter has of moldau.protocol after those statements."""
    script = f"{statements}\nimport sys\nprint(*sys.modules)"
    loaded = subprocess.run(  # noqa: S603 - our own interpreter and script
        [sys.executable, "-W", "error", "-c", script], capture_output=True, text=True, check=True
    )
    return {name for name in loaded.stdout.split() if name.startswith("moldau.protocol.")}


def test_the_index_imports_no_message() -> None:
    loaded = modules_after("import moldau.protocol.messages, moldau.protocol.schemas")
    assert loaded == {"moldau.protocol.messages", "moldau.protocol.schemas"}


def test_asking_for_a_class_imports_its_module_and_no_other() -> None:
    loaded = modules_after("from moldau.protocol.messages import api\napi('Fetch')")
    assert loaded == {"moldau.protocol.messages"}
    loaded = modules_after(
        "from moldau.protocol.messages import request_class\nrequest_class(1)\nrequest_class(12)"
    )
    messages = {name for name in loaded if name.startswith("moldau.protocol.messages.")}
    assert messages == {"moldau.protocol.messages.fetch", "moldau.protocol.messages.heartbeat"}


def test_the_index_has_the_apis_of_kafka_and_no_others() -> None:
    assert [(str(entry.key), entry.name) for entry in API.values()] == [
        tuple(row[:2]) for row in ROWS
    ]
    assert set(API).isdisjoint(RESERVED)
    assert sorted({*API, *RESERVED}) == list(range(95))


@pytest.mark.parametrize("row", ROWS, ids=[row[1] for row in ROWS])
def test_an_api_has_the_versions_and_listeners_of_kafka(row: list[str]) -> None:
    key, name, versions, flexible, listeners, *unstable = row
    request, response = request_class(int(key)).spec, response_class(int(key)).spec
    assert (request.name, response.name) == (f"{name}Request", f"{name}Response")
    assert request.key == response.key == int(key)
    assert request.versions == response.versions == parse_versions(versions)
    assert request.flexible == response.flexible
    assert request.listeners == tuple(LISTENERS[letter] for letter in listeners)
    assert request.latest_unstable == bool(unstable)
    first = max(parse_versions(flexible).first, request.versions.first)
    assert request.flexible_since == (None if flexible == "none" else first)


def test_an_api_is_found_by_key_and_by_name() -> None:
    for entry in API.values():
        assert api(entry.key) is api(entry.name) is entry
        assert request_class(entry.key) is request_class(entry.name)
        assert response_class(entry.key) is response_class(entry.name)


@pytest.mark.parametrize("unknown", [-1, 4, 7, 95, 32767, "LeaderAndIsr", "fetch", ""])
def test_what_is_no_api_is_not_found(unknown: int | str) -> None:
    for find in (api, request_class, response_class):
        with pytest.raises(KeyError):
            find(unknown)


def test_each_schema_is_found_by_its_name() -> None:
    names = list(schema_names())
    assert len(names) == len(set(names)) == 96
    for name in names:
        assert schema_class(name).spec.name == name
    with pytest.raises(KeyError):
        schema_class("FetchRequest")
