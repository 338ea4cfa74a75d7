"""Tests of the losses of classification."""
