"""
`make bench-models`: each model and its alternatives on the same splits, against plain peers.

A part is one module with a function `rows()`. Every figure is of data that the fit did not see.
"""
