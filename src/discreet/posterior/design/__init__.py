"""Posteriors of the weights of a regression, classification or direction, from releases over a design; see `weights.py`."""
