"""The public wing, first half: from a release to a posterior. Nothing here can read a record.

`noise_aware.py` chooses the method for a network, `design/weights.py` reads every payload over a design.
"""
