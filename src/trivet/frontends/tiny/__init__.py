"""The `.tiny` language: small integer tensor programs with exact arithmetic."""
