"""The contract for plugin authors, and the loading of plugins."""
