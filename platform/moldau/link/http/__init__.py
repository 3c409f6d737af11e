"""What HTTP servers share: logins, TLS and names, and services in a broker's process."""
