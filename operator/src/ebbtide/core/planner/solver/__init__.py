"""
Which pools, and how many nodes of each: exactly the best, with a bound that shows it.

Every goal comes down to one small problem (`cover`): the least of a linear sum over whole nodes
at a demanded rate, with legal sizes and an on-demand floor. Pools that no best plan needs are left
out (`dominance`). A dual in one variable bounds the rest (`climb`), prices of nodes follow
(`reduce`), and what could still be better lies within a known distance of what these prices choose:
all of it is looked at, one way at a time, the nearest first (`walk`), size by size (`sizes`). Where
there are too many ways, two compiled lists of half the steps each are paired (`meet`).

These are loops over arrays (`table`), plain Python until they are compiled (`compiled`). Where a
size has too many ways it is cut in two (`search`), and after some cuts the ways are listed as
tables (`states`, `chains`, `pair`), in two halves whose pairs are looked up where one list would be
too long (`halves`). HiGHS answers where all that would take too long. A limit on how many pools a
plan has is a search around the whole (`few`).
"""
