"""
Training with parameter servers: the parameters live on servers, workers push gradients to them.

What belongs here: how the parameters are divided over servers and how the division changes, the
optimizers on flat buffers, the order of pushes, how tensors travel, and a worker's loop. The first
server of a map *leads*: it hands out steps and puts all pushes into one order that every server
follows, so that all of them pass through the same states (docs/parameter-server.md).

`spaces`, `optimizers`, `tickets` and `restoring` are pure: they open no socket and read no clock.
"""
