"""Lowerings of tile operators to loops of a scalar program."""
