"""Library operators: expansions to simpler operators and parallel loops, the same for all targets."""
