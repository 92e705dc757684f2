"""Lowerings: how one kind of machine does one tile operator."""
