"""What a user can ask of a cluster, one file a noun: topics, rules, users, quotas and others.

The command line, `moldau apply`, the console and pipelines are faces: they turn words, YAML and
forms into values, and show the texts that come back. A noun says what the values mean, compares
them with what a cluster has (`PlanStep`), and does the steps. Nothing here prints, and nothing
asks a person.
"""
