"""Analyses of programs: memory accesses, dependences, divergence, legality of transformations."""
