"""The producer: records in, batches out, each acknowledged or failed with a reason."""
