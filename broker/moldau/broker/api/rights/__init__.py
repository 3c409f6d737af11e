"""The rights on what a message names: topics, groups, transactional ids, settings.

A guard takes the parts out of a message that its client has no right to, before the handler sees
it, and puts their errors into the response. So handlers know nothing of rights, and where no
authorizer is configured, no guard runs. `guard` has the forms, `table` has a guard for each API.
"""
