"""The demo: training with and without DiscrimLoss, and audits, on data with known wrong labels."""
