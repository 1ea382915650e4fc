"""Talking to one API server: configuration, transport, client, watch and cache."""
