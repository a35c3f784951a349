"""Collections: kept, brought up to date, embedded by models here, and searched."""
