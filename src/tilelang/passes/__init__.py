"""Passes: pure steps from one function to the next, their order, and the loop that runs them."""
