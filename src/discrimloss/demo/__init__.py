"""The demo: training with and without DiscrimLoss, and audits, where wrong labels are known."""
