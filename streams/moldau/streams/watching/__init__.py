"""Topics that come and go while an app runs, for sources that are patterns."""
