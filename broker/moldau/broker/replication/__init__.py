"""The replicas that this node hosts: what is replicated, what may be read, and which requests wait.

- one replica       `partition.Partition`: a log, and this node's part in it
- the rules         `leader.Leader`: ISR and high watermark, a pure core
- all of a node     `replicas.Replicas`, with the periodic work on their logs
- what has to wait  `purgatory.Purgatory`
- of a topic        `topic_config.TopicConfig`
"""
