"""Printing thread-level functions as source text."""
