"""Code generation: prints thread-level functions as source text of languages of the C family."""
