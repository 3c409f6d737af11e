"""The share consumer: its cores alone, and whole on real and simulated brokers."""
