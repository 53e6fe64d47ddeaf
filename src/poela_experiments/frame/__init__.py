"""The one frame of every table: settings, published numbers, a run, a judgement, a file."""
