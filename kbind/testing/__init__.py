"""The test double and the real clusters that rules, plugins and kbind itself are tried on."""
