"""From losses or predictions to verdicts on labels."""
