-- cell_run: each measured cell with the identity of its run: what histories and
-- comparisons are made of.
-- grain: run_id, cell_key, host
-- reads: cell_result, run_identity
-- unit:  lengths in tokens
-- slot is where a value stands in a comparison: the host where several measured
-- the cell, else empty, so that a swapped node does not break the alignment.
-- repeated: an earlier run published the same measurement of this cell.
-- healthy: fewer than 1 % of the requests failed, or nobody counted.
CREATE OR REPLACE VIEW cell_run AS
WITH shared AS (
    SELECT identity, origin FROM run_identity GROUP BY identity, origin HAVING count(*) > 1
), c AS (
    SELECT c.run_id, c.cell_key, c.host, CASE WHEN c.hosts > 1 THEN c.host ELSE '' END AS slot,
           c.success_rate, c.failed, c.mean_input_len, c.mean_output_len,
           coalesce(c.success_rate >= 0.99, true) AS healthy,
           i.identity, i.parity, i.origin, i.started_at, i.sequence
    FROM cell_result c JOIN run_identity i ON i.run_id = c.run_id
), first_time AS (
    SELECT c.identity, c.origin, c.cell_key, c.slot, min(c.sequence) AS sequence
    FROM c SEMI JOIN shared s ON s.identity = c.identity AND s.origin = c.origin
    GROUP BY c.identity, c.origin, c.cell_key, c.slot
)
SELECT c.*, coalesce(f.sequence <> c.sequence, false) AS repeated
FROM c
LEFT JOIN first_time f ON f.identity = c.identity AND f.origin = c.origin AND f.cell_key = c.cell_key AND f.slot = c.slot;
COMMENT ON VIEW cell_run IS 'Each measured cell with the identity of its run; one row per run, cell and host';
COMMENT ON COLUMN cell_run.run_id IS 'run';
COMMENT ON COLUMN cell_run.cell_key IS 'ISL=…,OSL=…,TP=…,PP=…,CONC=…';
COMMENT ON COLUMN cell_run.host IS 'node the file came from, empty if unknown';
COMMENT ON COLUMN cell_run.slot IS 'host where several measured the cell, else empty';
COMMENT ON COLUMN cell_run.success_rate IS 'completed / (completed + failed)';
COMMENT ON COLUMN cell_run.failed IS 'failed requests';
COMMENT ON COLUMN cell_run.mean_input_len IS 'mean input length, tokens; NULL if unknown';
COMMENT ON COLUMN cell_run.mean_output_len IS 'mean output length, tokens; NULL if unknown';
COMMENT ON COLUMN cell_run.healthy IS 'fewer than 1 % of the requests failed, or nobody counted';
COMMENT ON COLUMN cell_run.identity IS 'see run_identity';
COMMENT ON COLUMN cell_run.parity IS 'see run_identity';
COMMENT ON COLUMN cell_run.origin IS 'see run_identity';
COMMENT ON COLUMN cell_run.started_at IS 'start of the run, UTC';
COMMENT ON COLUMN cell_run.sequence IS 'order in time; ties by run id';
COMMENT ON COLUMN cell_run.repeated IS 'true: an earlier run published the same measurement';
