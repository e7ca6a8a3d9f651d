"""Flavors: what researchers ask for, where each is served and by which means, and how much of it there is."""
