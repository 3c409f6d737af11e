"""Creation and deletion of topics: defaults and policies."""

from __future__ import annotations

from moldau.config import BOOLEAN, CLASS, HIGH, INT, LOW, Setting, at_least

# fmt: off
auto_create_topics_enable = Setting("auto.create.topics.enable", BOOLEAN, True, importance=HIGH,
    doc="Whether a topic that a client asks for is created when it does not exist.")
num_partitions = Setting("num.partitions", INT, 1, check=at_least(1),
    doc="The partitions of a topic that is created without saying how many.")
default_replication_factor = Setting("default.replication.factor", INT, 1,
    doc="The replicas of a topic that is created without saying how many.")
delete_topic_enable = Setting("delete.topic.enable", BOOLEAN, True, importance=HIGH,
    doc="Whether topics can be deleted.")
create_topic_policy_class_name = Setting(
    "create.topic.policy.class.name", CLASS, None, importance=LOW,
    doc="A plugin that may refuse new topics.")
alter_config_policy_class_name = Setting(
    "alter.config.policy.class.name", CLASS, None, importance=LOW,
    doc="A plugin that may refuse changes of settings.")
