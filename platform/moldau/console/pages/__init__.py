"""The pages of the console, a file for each thing that they show and change."""
