"""`moldau dev`: a cluster with all that belongs to it, and the project of a folder, in one command.

It stands above what it starts. A project is run by a process of its own (`project`, `app`).
"""
