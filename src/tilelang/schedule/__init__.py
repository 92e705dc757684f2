"""Software pipelining: the dependence graph of a loop, its modulo schedule, and how a schedule is explained."""
