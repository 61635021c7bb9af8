"""Search for hyperparameters without clean labels: `discrimloss tune`."""
