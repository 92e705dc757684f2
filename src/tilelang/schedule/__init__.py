"""Software pipelining: the graph and modulo schedule of a loop, placements of its statements, and their expansion."""
