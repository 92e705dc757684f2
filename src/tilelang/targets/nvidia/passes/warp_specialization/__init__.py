"""The parts of splitting a block into threads that bring tiles and threads that compute."""
