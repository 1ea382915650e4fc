"""Whose is a copy: the two markers, read."""
