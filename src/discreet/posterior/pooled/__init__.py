"""The default posterior: noisy tables made one data set of interactions, rows drawn with a prior that it teaches."""
