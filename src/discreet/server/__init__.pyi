from .client import Client as Client
from .client import ServedReleases as ServedReleases
from .remote_posterior import RemotePosterior as RemotePosterior
