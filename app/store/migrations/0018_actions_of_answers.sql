-- What an answer of the Guide offers to do, as JSON; no text where there is nothing.
ALTER TABLE messages ADD COLUMN actions TEXT NOT NULL DEFAULT '';
