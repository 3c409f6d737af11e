"""What the clients take as keywords, typed, so that editors and type checkers know them.

The modules are made of the rows of the settings (tests/client/options), which stay the one source:
a row becomes a keyword of its name with underscores. What type checkers do not see, `settings`
refuses when a client is made.
"""
