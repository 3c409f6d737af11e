"""Members of groups: each tells in lines of JSON what it owns and what it has read (member.py)."""
