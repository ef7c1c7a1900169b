"""What is published: payloads, calibrations and the release document, alone and combined."""
