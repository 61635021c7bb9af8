"""Files that are complete or not there, and locks on directories."""
