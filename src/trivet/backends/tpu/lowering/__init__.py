"""From operators to layers of the machine, one file a family."""
