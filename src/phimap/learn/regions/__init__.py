"""What a model leaves of the targets, learned region by region."""
