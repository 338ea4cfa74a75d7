"""Feature maps that depend on the data. They select or weight frequencies, or compress another map."""
