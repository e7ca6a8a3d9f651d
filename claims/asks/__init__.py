"""What somebody asks for: typed or sent, read, judged, kept for later, asked for again."""
