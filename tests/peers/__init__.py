"""Other people's software that tests run beside ours: how to get it, how to start it."""
