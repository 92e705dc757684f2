"""The performance model: how long a lowered program takes on a machine, without running it."""
