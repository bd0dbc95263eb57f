"""What the processes tell about themselves: metrics and logs. It decides nothing and is told everything."""
