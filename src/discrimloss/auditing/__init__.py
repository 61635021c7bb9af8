"""Audits: which labels of a data set are wrong, a report, a review, and corrected data."""
