"""`make demo`: the digits job on a real control plane, through three kinds of revocation, live."""
