"""
A cluster in virtual time, on which the operator's own `step` runs a whole job.

Rule: the world here does what a provider, the API server, kubelets and the coordinator do; what to
do about it is decided by `step` alone. Nothing reads a clock or draws chance of its own: time is
the agenda's, chance a generator that is passed in. The same arguments give the same log.
"""
