"""Passes: pure functions from `PrimFunc` to `PrimFunc`, their properties, and the pass manager."""
