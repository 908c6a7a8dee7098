"""
Which pools, and how many nodes of each: exactly the best, with a bound that shows it.

Every goal comes down to one small problem (`cover`): the least of a linear sum over whole nodes
at a demanded rate, with legal sizes and an on-demand floor. Pools that no best plan needs are left
out (`dominance`). A dual in one variable bounds the rest (`dual`; `climb` where loops are faster
than tables), prices of nodes follow (`prices`), and what could still be better lies within a known
distance of what these prices choose: the nearest of it is looked at one by one (`nearest`), and
what is left is listed (`states`, `chains`, `pair`, `search`), in two halves whose pairs are looked
up where one list would be too long (`halves`). Sizes with demands of their own are bounded each at
its own price (`own`). A limit on how many pools a plan has is a search around all that (`few`).
HiGHS answers where the lists would be too long even so.
"""
