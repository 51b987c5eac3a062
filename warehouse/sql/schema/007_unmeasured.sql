-- Runs whose measurements are still to be computed. A bulk load leaves that to
-- whoever asks next: it takes several times as long as storing them.

CREATE TABLE unmeasured (
    run_id VARCHAR NOT NULL
);
