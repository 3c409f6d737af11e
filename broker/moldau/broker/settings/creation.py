"""Creation and deletion of topics: defaults and policies."""

from __future__ import annotations

from moldau.config import BOOLEAN, CLASS, INT, Importance, Setting, at_least

auto_create_topics_enable = Setting(
    "auto.create.topics.enable",
    BOOLEAN,
    True,
    "Whether a topic that a client asks for is created when it does not exist.",
    importance=Importance.HIGH,
)
num_partitions = Setting(
    "num.partitions",
    INT,
    1,
    "The partitions of a topic that is created without saying how many.",
    check=at_least(1),
)
default_replication_factor = Setting(
    "default.replication.factor",
    INT,
    1,
    "The replicas of a topic that is created without saying how many.",
)
delete_topic_enable = Setting(
    "delete.topic.enable",
    BOOLEAN,
    True,
    "Whether topics can be deleted.",
    importance=Importance.HIGH,
)
create_topic_policy_class_name = Setting(
    "create.topic.policy.class.name",
    CLASS,
    None,
    "A plugin that may refuse new topics.",
    importance=Importance.LOW,
)
alter_config_policy_class_name = Setting(
    "alter.config.policy.class.name",
    CLASS,
    None,
    "A plugin that may refuse changes of settings.",
    importance=Importance.LOW,
)
