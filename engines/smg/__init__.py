"""smg, the Shepherd Model Gateway: shares requests out over replicas of one model."""
