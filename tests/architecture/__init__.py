"""The house rules as tests: what is not checked is not a rule.

Each rule is a function from sources to violations, so that a test can plant one in memory and see
it found. What breaks a rule today is in `allowed.toml`, which may only shrink.
"""
