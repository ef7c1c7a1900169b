"""Read and write files of public content: networks, tables, projects, scores."""
