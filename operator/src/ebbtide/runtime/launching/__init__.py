"""
Unmodified torchrun scripts: torch's elastic agent, with the coordinator as its rendezvous.

Rule of this package: who trains together is the coordinator's word alone. What torchrun promises a
script (its environment, its options, one process per rank) is torch's own code; here is only what
meets, who is to blame when a script fails, and how much time a script gets to end.
"""
