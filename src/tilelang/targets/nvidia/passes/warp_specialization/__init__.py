"""Warp specialization: a producer that loads tiles, consumers that compute, and the pipelines between them."""
