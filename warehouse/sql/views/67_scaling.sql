-- scaling: how much of the single-node throughput each node of a run delivers.
-- grain: run_id, cell_key, slot (runs on several nodes, or with a baseline)
-- reads: cell_run, run, run_identity, measurement, expected_cell
-- unit:  throughput in tok/s, efficiency in per cent of baseline * nodes
-- configured: against scaling_baseline_output_throughput of the configuration,
-- one number for all cells, as the gate has it. single: against the latest
-- earlier healthy single-node run of equal model, precision, GPU, driver and TP,
-- cell by cell (PP left out, since more nodes need more stages).
CREATE OR REPLACE VIEW scaling AS
WITH i AS (
    SELECT i.run_id, i.nnodes, i.image, r.scaling_baseline, concat_ws(' · ', i.driver, i.model, i.precision, i.gpu, i.simulated) AS who
    FROM run_identity i JOIN run r ON r.run_id = i.run_id
), n AS (
    SELECT c.run_id, c.cell_key, c.slot, c.host, c.started_at, coalesce(c.sequence, '') AS asked, i.nnodes, i.image, i.scaling_baseline, i.who,
           regexp_replace(c.cell_key, ',PP=\d+', '') AS work
    FROM cell_run c JOIN i ON i.run_id = c.run_id WHERE i.nnodes > 1 OR i.scaling_baseline IS NOT NULL
), one AS (
    -- runs on one node that some run on several is like: mostly none
    SELECT c.run_id, c.cell_key, c.host, c.started_at, c.sequence, i.image, i.who, regexp_replace(c.cell_key, ',PP=\d+', '') AS work
    FROM cell_run c JOIN (SELECT * FROM i WHERE nnodes = 1 AND who IN (SELECT who FROM i WHERE nnodes > 1)) i ON i.run_id = c.run_id
    WHERE c.healthy AND NOT c.repeated AND c.started_at IS NOT NULL
    -- of several measurements in one run the first host's
    QUALIFY row_number() OVER (PARTITION BY c.run_id, work ORDER BY c.host, c.cell_key) = 1
), pair AS (
    SELECT n.*, o.run_id AS single_run, o.cell_key AS single_key, o.host AS single_host, o.started_at AS single_at, o.image AS single_image
    FROM n ASOF LEFT JOIN one o ON o.who = n.who AND o.work = n.work AND n.asked > o.sequence
)
SELECT p.run_id, p.cell_key, e.ordinal AS cell_ordinal, p.slot, p.nnodes, a.value AS output_throughput,
       p.scaling_baseline AS configured_baseline,
       CASE WHEN p.scaling_baseline > 0 THEN 100 * a.value / (p.scaling_baseline * p.nnodes) END AS configured_pct,
       CASE WHEN p.nnodes > 1 THEN p.single_run END AS single_run,
       CASE WHEN p.nnodes > 1 THEN b.value END AS single_throughput,
       CASE WHEN p.nnodes > 1 AND b.value > 0 THEN 100 * a.value / (b.value * p.nnodes) END AS single_pct,
       CASE WHEN p.nnodes > 1 THEN date_diff('second', p.single_at, p.started_at) / 86400 END AS single_age_days,
       CASE WHEN p.nnodes > 1 THEN p.single_image END AS single_image,
       CASE WHEN a.value IS NULL THEN 'no output throughput'
            WHEN p.nnodes <= 1 THEN 'one node: per cent of the configured baseline'
            WHEN p.scaling_baseline IS NULL THEN 'no scaling baseline is set: the gate on scaling.efficiency_pct cannot be evaluated'
            WHEN p.single_run IS NULL THEN 'no earlier comparable run on one node'
            WHEN p.single_image IS DISTINCT FROM p.image THEN 'the single-node run used another image' END AS reason
FROM pair p
LEFT JOIN measurement a ON a.run_id = p.run_id AND a.cell_key = p.cell_key AND a.host = p.host AND a.metric = 'output_throughput'
LEFT JOIN measurement b ON b.run_id = p.single_run AND b.cell_key = p.single_key AND b.host = p.single_host AND b.metric = 'output_throughput'
LEFT JOIN expected_cell e ON e.run_id = p.run_id AND e.cell_key = p.cell_key;
COMMENT ON VIEW scaling IS 'How much of the single-node throughput each node delivers; one row per run, cell and slot of runs on several nodes or with a baseline';
COMMENT ON COLUMN scaling.run_id IS 'run';
COMMENT ON COLUMN scaling.cell_key IS 'ISL=…,OSL=…,TP=…,PP=…,CONC=…';
COMMENT ON COLUMN scaling.cell_ordinal IS 'order of the cell in the plan';
COMMENT ON COLUMN scaling.slot IS 'host where several measured the cell, else empty';
COMMENT ON COLUMN scaling.nnodes IS 'nodes of the run';
COMMENT ON COLUMN scaling.output_throughput IS 'measured, tok/s';
COMMENT ON COLUMN scaling.configured_baseline IS 'single-node output throughput of the configuration, tok/s';
COMMENT ON COLUMN scaling.configured_pct IS '100 * output_throughput / (configured_baseline * nnodes)';
COMMENT ON COLUMN scaling.single_run IS 'latest earlier comparable run on one node';
COMMENT ON COLUMN scaling.single_throughput IS 'its output throughput, tok/s';
COMMENT ON COLUMN scaling.single_pct IS '100 * output_throughput / (single_throughput * nnodes)';
COMMENT ON COLUMN scaling.single_age_days IS 'how much earlier it started, days';
COMMENT ON COLUMN scaling.single_image IS 'its container image';
COMMENT ON COLUMN scaling.reason IS 'what to know about the figures, or why there are none';
