"""From a release to a posterior. Nothing here can read a record.

`read.py` chooses the reader of a release, `methods.py` the method for a network.
"""
