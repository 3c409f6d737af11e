"""What each login may do in the console: logins, sessions, roles, masks and the audit log."""
