"""A vendor of a machine that nobody builds: what tests add to the compiler to see that it is no vendor's.

Its waves have 64 lanes, nothing copies asynchronously, and its matrix instruction of 32 x 32 x 8 has the layout of AMD's
`v_mfma_f32_32x32x8_f16`. The folder looks as one in `tilelang.targets` does; `family.FAMILY` is what a registry lists.
"""
