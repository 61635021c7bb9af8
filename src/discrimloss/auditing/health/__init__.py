"""Health of the data: duplicates, outliers, rare classes, broken samples, rows out of order."""
