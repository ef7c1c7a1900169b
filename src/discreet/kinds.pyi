from .releases.kinds.audited_tables import AuditedTables as AuditedTables
from .releases.kinds.audited_tables import AuditNoise as AuditNoise
from .releases.kinds.chosen_network import ChosenNetwork as ChosenNetwork
from .releases.kinds.noisy_counts import NoisyCounts as NoisyCounts
from .releases.kinds.noisy_tables import NoisyTables as NoisyTables
from .releases.kinds.noisy_tables import PlannedNoise as PlannedNoise
