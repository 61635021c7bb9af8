"""Hyperparameters found without clean labels: `discrimloss tune`."""
