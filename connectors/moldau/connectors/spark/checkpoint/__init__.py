"""The checkpoints of a connector, and all that lies beside them: see `CheckpointFolder`."""
