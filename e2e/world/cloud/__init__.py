"""
The simulated cloud: pools, machines that are nodes, an autoscaler, a bill, and revocations.

Rule: the cloud does to the cluster what a provider does, through the API server and the machines
alone. It reads pods to see what is pending; it knows nothing of the jobs they belong to. All its
own delays are in simulated seconds and go through one `Pace`, so that one factor makes a test
fast; what a pod's spec says in seconds stays as it is.
"""
