"""The paper's tables and figures, as data: what is run, and the published numbers beside ours."""
