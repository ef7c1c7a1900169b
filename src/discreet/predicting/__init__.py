"""Predicting pack: probabilities of one variable for every record of an analyst's own table, given its other values.

It reads posteriors alone, so that the server may build on it. `dc.predict` is its door; without it this is refused in a
sentence.
"""
