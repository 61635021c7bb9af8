"""What we claim, as programs that print it: run them from the root of a clone."""
