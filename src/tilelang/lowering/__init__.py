"""Lowerings of tile operators, and what they share among targets."""
