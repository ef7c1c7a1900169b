"""placeholder"""


def complete_set(law: object, gaps: object) -> object:
    raise NotImplementedError
