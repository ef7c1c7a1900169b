"""Posteriors of the weights of a regression, classification or direction; `weight_posterior.py` reads all payloads."""
