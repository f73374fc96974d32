"""The numba loops: the only place with index arithmetic.

Every kernel has a fixed order of operations: no BLAS, no fastmath, no parallel loops. The same
inputs give the same bits with any number of threads, in any batch split.

`keys` draws random numbers, `posterior` keeps the arms, `choice` picks one, `wins` computes with
what probability it would, `loop` runs whole simulations.
"""
