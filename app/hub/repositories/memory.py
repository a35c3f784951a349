"""What is remembered of the hub: searches, what repositories offer, the catalogue, and the token it wants."""

from pathlib import Path

from app.config.hub_token import HubToken
from app.hub.repositories.answers import HubAnswerCache
from app.hub.repositories.catalogue import ModelCatalogue
from app.hub.repositories.generation import SamplingRecommendation
from app.hub.repositories.offers import RepositoryOffer
from app.hub.repositories.search import SearchPage


class HubMemory:
    """One per gateway; its parts block."""

    def __init__(self, folder: Path, token_file: Path) -> None:
        self.searches = HubAnswerCache(folder / "searches", SearchPage)
        self.offers = HubAnswerCache(folder / "offers", RepositoryOffer)
        self.generation = HubAnswerCache(folder / "generation", SamplingRecommendation)
        """What repositories recommend for sampling, where it does not lie with their files."""
        self.catalogue = ModelCatalogue(folder / "catalogue.json")
        self.token = HubToken(token_file)
