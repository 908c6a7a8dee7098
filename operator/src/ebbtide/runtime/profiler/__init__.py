"""
What a training script costs: where the time of a step goes, how large its parts are, what fits.

Two uses. A `Meter` goes with every process of a job and is cheap enough to be always on. And
`ebbtide profile` runs a script alone, without a cluster: the `rehearsal` in the script's process
carries out what the `session` in the command's process orders, one batch size after another.
"""
