"""Files of what is public: networks, tables, projects, scores."""
