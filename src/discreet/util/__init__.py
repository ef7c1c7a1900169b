"""Tools without privacy: arrays, files, limits, progress, seeds. This room imports no other."""
