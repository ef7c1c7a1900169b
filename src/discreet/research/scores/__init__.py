"""Scores that choices are made by, families of laws, and the mathematics behind them. Nothing here is private."""
