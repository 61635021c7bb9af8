"""One training loop for all methods and tasks, on Accelerate, with records and resumption."""
