"""Lowerings that all GPUs share: tiles distributed over threads."""
