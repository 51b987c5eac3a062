-- baseline_identity: one run beside a baseline that is not in the warehouse, such
-- as the sidecar of an older deck: what of their identities contradicts, and what
-- is to be said where nothing does.
-- grain: one row
-- reads: run_identity
-- unit:  none
-- base is JSON: {name, run_id, model, precision, gpu, driver, nodes, dp, simulated,
-- at, "values": [{c: cell key, h: host, m: metric, v: number or null}], "accuracy":
-- {metric or task.metric: number}}. What it leaves out is taken to agree, and said.
CREATE OR REPLACE MACRO baseline_identity(this_run, base) AS TABLE
WITH b AS (
    SELECT unnest(from_json(base::VARCHAR, '{"name": "VARCHAR", "run_id": "VARCHAR", "model": "VARCHAR", "precision": "VARCHAR", "gpu": "VARCHAR", "driver": "VARCHAR",
        "nodes": "INTEGER", "dp": "INTEGER", "simulated": "BOOLEAN", "at": "TIMESTAMP", "values": [{"c": "VARCHAR", "h": "VARCHAR", "m": "VARCHAR", "v": "DOUBLE"}], "accuracy": "JSON"}'))
)
SELECT i.*, coalesce(nullif(b.run_id, ''), b.name) AS previous_run, b.at AS previous_at, b.values AS previous_values, b.accuracy AS previous_accuracy, b.name AS previous_name,
       concat_ws('; ',
           CASE WHEN b.run_id = i.run_id THEN 'the baseline is this very run' END,
           CASE WHEN nullif(b.model, '') <> i.model THEN 'the baseline is of model ' || b.model END,
           CASE WHEN nullif(b.precision, '') <> i.precision THEN 'the baseline has precision ' || b.precision END,
           CASE WHEN nullif(b.gpu, '') <> i.gpu THEN 'the baseline is from ' || b.gpu || ', this run from ' || i.gpu END,
           CASE WHEN nullif(b.driver, '') <> i.driver THEN 'the baseline is of driver ' || b.driver END,
           CASE WHEN b.nodes <> coalesce(nullif(i.nnodes, 0), 1) THEN 'the baseline is of ' || b.nodes || ' nodes, this run of ' || coalesce(nullif(i.nnodes, 0), 1) END,
           CASE WHEN b.dp <> coalesce(nullif(i.dp, 0), 1) THEN 'the baseline has DP ' || b.dp || ', this run ' || coalesce(nullif(i.dp, 0), 1) END,
           CASE WHEN b.simulated <> i.simulated THEN CASE WHEN b.simulated THEN 'the baseline is simulated' ELSE 'this run is simulated' END END) AS refusal,
       nullif(concat_ws('; ',
           CASE WHEN coalesce(nullif(b.model, ''), nullif(b.precision, ''), nullif(b.gpu, ''), nullif(b.driver, '')) IS NULL THEN 'identity not stated in the baseline'
                ELSE 'not stated in the baseline: ' || nullif(concat_ws(', ', CASE WHEN b.model = '' AND i.model <> '' THEN 'model' END, CASE WHEN b.precision = '' AND i.precision <> '' THEN 'precision' END,
                    CASE WHEN b.gpu = '' AND i.gpu <> '' THEN 'GPU' END, CASE WHEN b.driver = '' AND i.driver <> '' THEN 'driver' END), '') END,
           CASE WHEN b.at > i.started_at THEN 'the baseline is later than this run' END), '') AS remark
FROM b CROSS JOIN run_identity i WHERE i.run_id = this_run;
COMMENT ON MACRO TABLE baseline_identity IS 'One run beside a baseline that is not in the warehouse: what of their identities contradicts (refusal), and what is to be said otherwise (remark). this_run: run id; base: JSON as prev_run_against takes it';
