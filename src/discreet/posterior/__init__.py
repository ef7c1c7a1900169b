"""The public wing, first half: from a release to a posterior. Nothing here can read a record.

`methods.py` chooses the method for a network, `design/weight_posterior.py` reads every payload over a design.
"""
