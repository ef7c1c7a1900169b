"""Queries: from a posterior to answers with intervals. Nothing in this room can read a record."""
