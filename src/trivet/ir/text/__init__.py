"""The text form of a graph (`.tir`): what is printed reads back as the same graph."""
