"""The tile operators: what each does, in fields, a check, and a few lines of NumPy; never how."""
