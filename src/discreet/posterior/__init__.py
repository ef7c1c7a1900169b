"""The public wing, first half: from a release to a posterior. Nothing here can read a record."""
