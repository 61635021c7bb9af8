"""Verdicts into the tools people look at labels with, and corrected labels back."""
