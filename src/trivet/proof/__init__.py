"""A proof that a plan file is sound, from the file alone; shares nothing with what makes plans."""
