"""A page on this machine to go through the suspicious samples, and what was decided there."""
