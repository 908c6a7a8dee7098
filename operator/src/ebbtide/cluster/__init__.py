"""
The only code that talks to the API server, and to a job's coordinator.

It gathers what `step` may know into one `Observed`, carries out the actions that `step` decided,
writes the status and tells events. It decides nothing: what to do with what is found belongs to the
core. What the API server answers is wrapped in the errors of `cluster.errors`.
"""
