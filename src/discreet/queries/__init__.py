"""The public wing, second half: from a posterior to answers. Nothing here can read a record."""
