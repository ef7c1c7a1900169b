"""Evidence pack: the exact posterior of releases of any kinds together, by Markov chains over the records.

Tables, draws of probabilities and choices of the same records each have a law given these records. Releases on the same
records share them, and data sets share the probabilities. It registers through the entry points of the package, as a
third party's pack would; without it each kind is read alone, and tables are read together by the kernel.
"""
