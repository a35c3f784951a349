"""What an engine may reach of this computer: the rules, from its plan, and the launcher that enforces them."""
