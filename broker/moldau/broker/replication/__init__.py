"""The replicas that this node hosts: replication, visible records, and waiting requests.

- one replica       `partition.Partition`: a log, and this node's part in it
- the rules         `leader.Leader`: ISR and high watermark, a pure core
- all of a node     `replicas.Replicas`, with the periodic work on their logs
- waiting requests  `purgatory.Purgatory`
- of a topic        `topic_config.TopicConfig`
"""
