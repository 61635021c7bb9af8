"""Estimates verdicts on labels from losses or predictions."""
