"""
The kinds that users write: their fields, their rules, and the way from text to values.

The models here are the only source of the custom resource definitions (`render`) and the only
door through which manifests enter (`convert`): what comes out is a checked value of the core, or
every field error at once. Nothing here talks to a cluster.
"""
