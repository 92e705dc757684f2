"""Passes from thread-level functions to thread-level functions."""
