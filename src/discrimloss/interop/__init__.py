"""Export of verdicts to labelling tools, and import of corrected labels."""
