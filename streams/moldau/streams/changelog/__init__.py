"""The changelogs, offsets and topics of an app that does not run: read and written without it."""
