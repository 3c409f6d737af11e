"""Copies topics, their settings and the offsets of consumer groups from one cluster to another.

What Kafka's MirrorMaker 2 does, as connectors of Connect and as the command `moldau mirror`. Its
names, settings and internal topics are kept, so that a config of Java runs here and Java's clients
read what is written here.
"""
