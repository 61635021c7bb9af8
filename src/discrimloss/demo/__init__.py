"""Cross-entropy beside DiscrimLoss on real digits with known wrong labels."""
