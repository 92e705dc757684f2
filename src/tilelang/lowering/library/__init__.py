"""Operators that are programs of simpler operators and parallel loops, the same for every target."""
