"""Programs that measure our published results. Run them from the root of a clone."""
