"""Deciding pack: decisions by posterior draws, of responses by their payoffs and of numbers by their losses.

It reads posteriors alone, so that the server may build on it. `dc.decide` and `dc.decisions` are its doors; without
it they, and the command `decide`, are refused in a sentence.
"""
