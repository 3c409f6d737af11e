"""How many of something there are, in the words of a message."""


def counted(count: int, noun: str, nouns: str = "") -> str:
    """Return such as `1 node` or `20,000 records`."""
    return f"{count:,} {noun_of(count, noun, nouns)}"


def noun_of(count: int, noun: str, nouns: str = "") -> str:
    """Return the noun for so many. `nouns` is a plural that is not the noun and an s."""
    return noun if count == 1 else nouns or f"{noun}s"
