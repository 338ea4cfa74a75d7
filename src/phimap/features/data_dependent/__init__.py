"""Feature maps that depend on the data: frequencies are drawn by leverage scores or weighted, or maps compressed."""
