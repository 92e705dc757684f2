"""Overlap: schedules of loops and their expansion; programs of producer and consumers with pipelines between them."""
