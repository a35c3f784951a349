"""The connections page: which other computers were called, when and why; and the switch that lets none be."""
