"""A training loop for all methods and tasks, on Accelerate, which records and resumes runs."""
