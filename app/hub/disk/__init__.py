"""What models take of the disk: counted, checked, shared, removed and brought back."""
