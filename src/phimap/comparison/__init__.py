"""Methods for tables side by side on the same rows."""
