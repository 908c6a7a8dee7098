"""Size and place: how many workers, on which pools. Pure; mutates nothing it is given."""
