"""Google read APIs: mail, calendar, documents, Drive and tasks, with read-only scopes and `GET` requests only."""
