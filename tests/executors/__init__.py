"""What Python workers of Spark share: clients, ranges of offsets, transactions."""
