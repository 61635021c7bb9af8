"""Why a sample was flagged: the evidence for each suspicious label, in plain words."""
