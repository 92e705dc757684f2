"""Passes that read tile-level functions."""
