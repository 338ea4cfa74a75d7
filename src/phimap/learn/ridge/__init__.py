"""Ridge regression from sufficient statistics or from rows, and the choice of its regularisation."""
