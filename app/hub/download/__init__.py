"""Files of a hub, fetched so that they arrive: in parallel pieces, resumed after anything, checked against their hash.

`program` is a process of its own for one download. It may be killed at any moment and started again: what was written
is in a part file beside a map of its chunks, and only a file whose hash is right gets its name in the cache.
"""
