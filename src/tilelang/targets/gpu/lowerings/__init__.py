"""Lowerings that every GPU can use: what tiles become when threads with private registers share the work."""
