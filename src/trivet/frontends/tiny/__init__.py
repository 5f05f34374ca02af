"""tiny."""
