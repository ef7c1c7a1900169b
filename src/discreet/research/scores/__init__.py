"""Scores of choices, families of laws, and their mathematics. Nothing here is private."""
