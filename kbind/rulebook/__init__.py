"""Rule tables: loading with positions, proof of completeness, decision, explanation. Pure."""
