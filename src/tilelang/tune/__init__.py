"""The autotuner: compiles configurations in parallel, checks their results, and measures them in rounds."""
