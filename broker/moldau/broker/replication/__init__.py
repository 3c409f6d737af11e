"""The replicas that this node hosts: replication, visible records, and waiting requests.

- one replica       `partition.Partition`: a log, and this node's part in it
- the rules         `leader.Leader`: ISR and high watermark, a pure core
- a follower        `leader_fetch.LeaderFetch`, a pure core; `fetcher` carries it out
- all of a node     `replicas.Replicas`, with the periodic work on their logs
- waiting requests  `purgatory.Purgatory`
- of a topic        `topic_config.TopicConfig`
"""
