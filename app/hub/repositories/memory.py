"""What is remembered of the hub: searches, what repositories offer, the catalogue, and the token it wants."""

from pathlib import Path

from app.config.hub_token import HubToken
from app.hub.repositories.answers import Answers
from app.hub.repositories.catalogue import Catalogue
from app.hub.repositories.generation import Recommended
from app.hub.repositories.offers import Offer
from app.hub.repositories.search import Listing


class HubMemory:
    """One per gateway; its parts block."""

    def __init__(self, folder: Path, token_file: Path) -> None:
        self.searches = Answers(folder / "searches", Listing)
        self.offers = Answers(folder / "offers", Offer)
        self.generation = Answers(folder / "generation", Recommended)
        """What repositories recommend for sampling, where it does not lie with their files."""
        self.catalogue = Catalogue(folder / "catalogue.json")
        self.token = HubToken(token_file)
