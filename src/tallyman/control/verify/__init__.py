"""Whether the past still holds: files, inputs, and the same result again."""
