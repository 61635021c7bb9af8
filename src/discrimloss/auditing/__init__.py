"""Which labels are wrong: from a source of labelled samples to a ranked list, and back again."""
