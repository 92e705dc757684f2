"""Running programs of the IR in NumPy; the living definition of their meaning."""
