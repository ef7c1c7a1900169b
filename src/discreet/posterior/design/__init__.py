"""Posteriors of the weights of a regression, classification or direction; `weights.py` reads every payload."""
