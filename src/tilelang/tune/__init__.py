"""Finds the fastest of many configurations of a kernel: compiles them at once, checks them, and lets them race."""
