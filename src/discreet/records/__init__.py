"""Records: the only code that reads them. It returns private statistics, for mechanisms alone."""
