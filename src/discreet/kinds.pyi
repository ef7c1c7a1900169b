from .releases.kinds.chosen_network import ChosenNetwork as ChosenNetwork
from .releases.kinds.noisy_counts import NoisyCounts as NoisyCounts
from .releases.kinds.noisy_tables import NoisyTables as NoisyTables
from .releases.kinds.noisy_tables import PlannedNoise as PlannedNoise
from .releases.kinds.number_tables import NumberNoise as NumberNoise
from .releases.kinds.number_tables import NumberTables as NumberTables
from .releases.kinds.tables_with_pairs import NoiseWithPairs as NoiseWithPairs
from .releases.kinds.tables_with_pairs import TablesWithPairs as TablesWithPairs
