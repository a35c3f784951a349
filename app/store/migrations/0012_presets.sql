-- Presets of chats: `key` is the name, folded, by which they are told apart; `value` the JSON of core.presets.ChatPreset.
CREATE TABLE presets (
    key   TEXT PRIMARY KEY,
    value TEXT NOT NULL
);
