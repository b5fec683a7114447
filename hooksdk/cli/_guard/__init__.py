"""`hooksdk guard`: the rules of a project judge what a coding agent does itself."""
