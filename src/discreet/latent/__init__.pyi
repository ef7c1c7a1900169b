from .latent_plan import LatentPlan as LatentPlan
from .latent_plan import plan_latent as plan_latent
from .latent_plan import without_latent as without_latent
from .latent_proposal import LatentProposal as LatentProposal
from .latent_proposal import propose_latent as propose_latent
from .latent_reader import LatentDraws as LatentDraws
