"""Level 1: arrays and index expressions in, Level 2 programs out."""
