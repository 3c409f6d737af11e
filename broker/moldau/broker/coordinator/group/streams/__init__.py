"""Streams groups (KIP-1071): the broker assigns the tasks of a Kafka Streams application.

The same as in consumer groups, and shared with them: the log is folded by `replay`, epochs of
group, target and member, fencing by the epoch, the steps of a member towards its target
(`consumer.reconciliation`), deadlines (`consumer.deadlines`), the hash of the group's topics
(`consumer.metadata_hash`). A task takes the place of a partition: the key is a subtopology in a
role, and each partition of it is a task (`tasks`).

New here:

- *Topology* (`topology`): subtopologies with their source, repartition and changelog topics. The
  first member brings it, record 23 keeps it. Members with another topology of the same epoch are
  rejected.
- *Configured topology* (`configuration`): the topology with the topics of the cluster. It decides
  how many partitions the internal topics have and how many tasks there are, or says why the group
  is not ready: topics are missing, or their partitions do not fit. It follows from the topology and
  the metadata alone, so it is not in the log; record 17 only says which epoch was found valid.
- *Roles*: a task is active at one member. Standbys keep a copy of its state on other processes.
  Several members (threads) may be of one process, and share its state directory: a process has each
  task once, whatever the roles (`state.is_free`).
- *Role changes* (`role_changes`): a copy becomes active, or the reverse, with its state open.
- *Assignors* (`assignors`): members in, tasks out.
- *Positions* (`positions`, `changelog_ends`): how far the copies of tasks are behind, as members
  report it and as the leaders of the changelogs say.
- *Statuses* in the response: what hinders the group, as its members log it.
- *Endpoints* (`endpoints`): where other members can be asked for their state.

Invariants:
- A task is active at one member at a time, and no process has it in two roles.
- member epoch <= target epoch <= group epoch, and the group epoch never falls.
- The target has each task of a ready topology active exactly once. A group that is not ready has
  an empty target.
"""
