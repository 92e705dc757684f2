"""Questions about programs: what they touch, what depends on what, what may run at once."""
