from .interchange.external_cells import measured_cells as measured_cells
from .interchange.external_cells import measured_mbi as measured_mbi
from .records.public import public_counts as public_counts
from .releases.external_figures import External as External
from .releases.external_figures import StatedNoise as StatedNoise
