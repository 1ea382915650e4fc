"""From a call to its outcome, behind the guards. Writes only."""
