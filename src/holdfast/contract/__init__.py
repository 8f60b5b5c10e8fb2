"""The shared types: protocols, value objects, enums and errors. Imports no other package except `text`."""
