"""
The local world: a real control plane, nodes that run pods, and a simulated cloud.

Rule: nothing here knows Ebbtide. The world offers what a provider and a cluster offer, so that
what is tried on it is tried as a user would; the operator and its jobs come from outside.
"""
