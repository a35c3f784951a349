-- What this machine showed. Values are the JSON of core.advice: one calibration per device, engine build and backend;
-- the last generations and loads, as they came.
CREATE TABLE calibrations (
    device  TEXT NOT NULL,
    engine  TEXT NOT NULL,
    version TEXT NOT NULL,
    backend TEXT NOT NULL,
    value   TEXT NOT NULL,
    PRIMARY KEY (device, engine, version, backend)
);
CREATE TABLE generations (
    seq   INTEGER PRIMARY KEY,
    value TEXT NOT NULL
);
CREATE TABLE loads (
    seq   INTEGER PRIMARY KEY,
    model TEXT NOT NULL,
    value TEXT NOT NULL
);
