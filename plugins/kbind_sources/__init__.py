"""The schema sources that ship with kbind, each a plugin like any other."""
