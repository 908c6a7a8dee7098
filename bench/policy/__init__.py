"""
`make bench-policy`: policies over time on public traces, against an omniscient job.

Laws are fitted on what came before each moment, priors on the other family of traces; jobs are
drawn from the part of each trace behind the first two fifths.
"""
