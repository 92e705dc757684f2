"""The published place of targets: `tilelang.backend.target`."""
