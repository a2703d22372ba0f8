"""Streams: sets of shards that are larger than the disk, or lie on another machine.

In reading order:

1. addresses.py: from an address with a pattern to a list of files with their sizes.
2. transfer.py: bytes of a file, however often the connection breaks.
3. shards.py: the shape and the number of rows of each shard, from its header; some rows, or all of them.
4. split.py: train, validation and test by a hash of each row or shard.
5. windows.py: the order of training, a two-level shuffle.
6. shard_cache.py: the shards of the present window and of the next one on the local disk.
7. stream.py: puts them together as `Data`, with the held-out rows at hand.
"""
