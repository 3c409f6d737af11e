"""The demo of `make demo`: a shop's database becomes topics, statistics, a lake and a page."""
