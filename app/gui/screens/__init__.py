"""One folder per page: `model.py` holds its state and is tested without a window, `view.py` shows it."""
