"""From cluster objects to facts and situations. Reads only."""
