"""The agent: queues, workers, and what runs for each Connection."""
