"""
`make bench-solver`: the pool solver against general ones, on the same questions in one run.

Peers are scipy.milp (HiGHS), OR-tools CP-SAT and PuLP with CBC, each with the time to build its
model. Questions are drawn from seeded families; every answer must have the same value.
"""
