"""Programs that pyright checks in strict mode; none is run."""
