"""DiscrimLoss in other training libraries, one module for each."""
