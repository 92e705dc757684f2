"""Lowerings of tile operators to the loops of a scalar program."""
