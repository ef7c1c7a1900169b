"""Records as values of columns whose domain is not known yet."""
