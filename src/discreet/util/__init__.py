"""What has nothing to do with privacy: arrays, files, limits, progress, seeds. It imports no other room."""
