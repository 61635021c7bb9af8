"""Health of the data: duplicates, outliers, rare classes, broken samples, non-random order."""
