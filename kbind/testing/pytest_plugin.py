"""Fixtures for rule and plugin authors; registered by the entry point ``kbind``."""
