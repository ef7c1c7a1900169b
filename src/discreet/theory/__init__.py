"""Mathematics that reads neither data nor releases: exact inference over tables of probabilities."""
