"""Measurements, run on demand: `python -m bench.NAME --help`. Peers run in the same process run, beside us."""
