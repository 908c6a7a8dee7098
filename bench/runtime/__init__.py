"""
`make bench-runtime`: the trainer runtime against its peers, with real processes, in one run.

Each part is a module with one function that returns rows. Name parts to run those alone:
`make bench-runtime PARTS="recovery warm"`. Ours and the peer take turns, so that a busy moment
meets both, and what is judged is a ratio of medians.
"""
