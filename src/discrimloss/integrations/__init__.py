"""DiscrimLoss inside the training libraries that people already use: one module for each."""
