"""Questions pack: differences, ratios and events of probabilities, counts, and what an action would do.

A question is answered from the draws of the queries that it is made of, so that the correlation between them counts. It
reads posteriors alone, so that the server may answer it. It registers its parsers as methods that the kernel declares;
without it such a text is refused in a sentence.
"""
