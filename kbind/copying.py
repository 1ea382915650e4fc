"""What travels between an instance and its copy, and whether it already stands there."""
