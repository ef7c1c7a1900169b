"""Exact inference over tables of probabilities and over their draws, and forward sampling. Reads no data."""
