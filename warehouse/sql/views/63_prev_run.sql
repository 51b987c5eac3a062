-- prev_run: each run against the run before it, metric by metric.
-- grain: run_id, cell_key, slot, metric; metric is empty in the one row of a cell
-- that was not compared as a whole (new, gone, not_comparable)
-- reads: cell_run, run_identity, cell_result, measurement, metric_def, noise, expected_cell
-- unit:  delta_pct in per cent of the previous value, signed as measured;
--        better_pct the same with + for better
-- Previous is, cell by cell, the latest earlier run of equal identity that
-- measured the cell and in which fewer than 1 % of the requests failed; runs
-- passed over are named; of two runs that start at one instant neither is earlier. A change of more than 5 % is marked; whether it is more
-- than noise is for view regressions to say. Nothing here changes a gate.
CREATE OR REPLACE VIEW prev_run AS
WITH now AS (
    -- a sequence begins with its start: this is below that of a run of the same instant
    SELECT c.*, i.image, c.started_at::VARCHAR AS started FROM cell_run c JOIN run_identity i ON i.run_id = c.run_id WHERE c.started_at IS NOT NULL
), healthy AS (
    SELECT * FROM cell_run WHERE healthy AND NOT repeated AND started_at IS NOT NULL
), passed AS (
    -- the run just before, if it is not the one compared with
    SELECT * FROM cell_run WHERE NOT healthy AND NOT repeated AND started_at IS NOT NULL
), pair AS (
    SELECT n.run_id, n.cell_key, n.slot, n.host, n.identity, n.origin, n.success_rate, n.failed, n.started,
           p.run_id AS previous_run, p.host AS previous_host, p.started_at AS previous_at, p.origin AS previous_origin, p.sequence AS previous_sequence,
           greatest(abs(change_pct(n.mean_input_len, p.mean_input_len)), abs(change_pct(n.mean_output_len, p.mean_output_len))) AS length_pct
    FROM now n
    ASOF LEFT JOIN healthy p ON p.identity = n.identity AND p.cell_key = n.cell_key AND p.slot = n.slot AND n.started > p.sequence
), noted AS (
    SELECT p.*,
           CASE WHEN p.previous_run IS NULL THEN 'new'
                WHEN p.origin = p.previous_origin OR p.length_pct > 5 THEN 'not_comparable'
                ELSE 'compared' END AS cell_state,
           concat_ws('; ',
               CASE WHEN p.previous_run IS NULL THEN 'no earlier comparable run measured this cell'
                    WHEN p.origin = p.previous_origin THEN 'the same measurement was published before, in run ' || p.previous_run
                    WHEN p.length_pct > 5 THEN 'the workloads differ: mean lengths by ' || round(p.length_pct, 1) || ' %' END,
               CASE WHEN p.success_rate < 0.99 THEN num_text(p.failed) || ' requests failed in this run' END,
               CASE WHEN x.sequence > coalesce(p.previous_sequence, '') THEN 'run ' || x.run_id || ' was passed over: ' || num_text(x.failed) || ' requests failed in it' END) AS cell_reason
    FROM pair p
    ASOF LEFT JOIN passed x ON x.identity = p.identity AND x.cell_key = p.cell_key AND x.slot = p.slot AND p.started > x.sequence
), gone AS (
    -- cells of the run before that this run has not
    SELECT i.run_id, i.identity, p.run_id AS previous_run, p.started_at AS previous_at
    FROM (SELECT * FROM run_identity WHERE started_at IS NOT NULL) i
    ASOF JOIN (SELECT i.* FROM run_identity i WHERE i.started_at IS NOT NULL AND EXISTS (SELECT 1 FROM cell_result c WHERE c.run_id = i.run_id)) p
        ON p.identity = i.identity AND i.started_at::VARCHAR > p.sequence
), values AS (
    SELECT coalesce(a.run_id, b.run_id) AS run_id, coalesce(a.cell_key, b.cell_key) AS cell_key, coalesce(a.slot, b.slot) AS slot, coalesce(a.metric, b.metric) AS metric,
           a.run_id IS NOT NULL AS has_now, b.run_id IS NOT NULL AS has_before, a.value, a.quality, b.value AS previous
    FROM (SELECT s.run_id, s.cell_key, s.slot, m.metric, m.value, m.quality FROM noted s
          JOIN measurement m ON m.run_id = s.run_id AND m.cell_key = s.cell_key AND m.host = s.host
          JOIN metric_def d ON d.name = m.metric AND d.gated WHERE s.cell_state = 'compared') a
    FULL JOIN (SELECT s.run_id, s.cell_key, s.slot, m.metric, m.value FROM noted s
          JOIN measurement m ON m.run_id = s.previous_run AND m.cell_key = s.cell_key AND m.host = s.previous_host
          JOIN metric_def d ON d.name = m.metric AND d.gated WHERE s.cell_state = 'compared') b
        ON b.run_id = a.run_id AND b.cell_key = a.cell_key AND b.slot = a.slot AND b.metric = a.metric
), rows AS (
    SELECT s.run_id, s.cell_key, s.slot, v.metric, s.previous_run, s.previous_at, v.value, v.previous,
           comparison_state(v.has_now, v.value, v.has_before, v.previous) AS state,
           concat_ws('; ', comparison_reason(v.has_now, v.value, v.has_before, v.previous), nullif(s.cell_reason, '')) AS reason
    FROM noted s JOIN values v ON v.run_id = s.run_id AND v.cell_key = s.cell_key AND v.slot = s.slot
    UNION ALL
    SELECT run_id, cell_key, slot, '', previous_run, previous_at, NULL, NULL, cell_state, cell_reason
    FROM noted WHERE cell_state <> 'compared'
    UNION ALL
    SELECT g.run_id, c.cell_key, c.slot, '', g.previous_run, g.previous_at, NULL, NULL, 'gone',
           CASE WHEN e.cell_key IS NULL THEN 'only in the previous run' ELSE 'no result in this run' END
    FROM gone g JOIN cell_run c ON c.run_id = g.previous_run
    LEFT JOIN expected_cell e ON e.run_id = g.run_id AND e.cell_key = c.cell_key
    WHERE NOT EXISTS (SELECT 1 FROM cell_result x WHERE x.run_id = g.run_id AND x.cell_key = c.cell_key)
)
SELECT r.run_id, r.cell_key, e.ordinal AS cell_ordinal, r.slot, r.metric,
       coalesce(d.unit, '') AS unit, coalesce(d.direction, '') AS direction, coalesce(d.tier, '') AS tier, coalesce(d.ordinal, -1) AS metric_ordinal,
       r.previous_run, r.previous_at, r.value, r.previous,
       CASE WHEN r.state = 'compared' THEN r.value / r.previous END AS ratio,
       CASE WHEN r.state = 'compared' THEN change_pct(r.value, r.previous) END AS delta_pct,
       CASE WHEN r.state = 'compared' THEN better_pct(change_pct(r.value, r.previous), d.direction) END AS better_pct,
       r.state, nullif(r.reason, '') AS reason,
       coalesce(r.state = 'compared' AND abs(change_pct(r.value, r.previous)) > 5, false) AS changed,
       coalesce(r.state = 'compared' AND better_pct(change_pct(r.value, r.previous), d.direction) < -5, false) AS regression,
       n.robust_cv_pct AS noise_pct, coalesce(n.runs, 0) AS noise_runs
FROM rows r
LEFT JOIN metric_def d ON d.name = r.metric
LEFT JOIN expected_cell e ON e.run_id = r.run_id AND e.cell_key = r.cell_key
LEFT JOIN noise n ON n.run_id = r.run_id AND n.cell_key = r.cell_key AND n.slot = r.slot AND n.metric = r.metric;
COMMENT ON VIEW prev_run IS 'Each run against the run before it; one row per run, cell, slot and gated metric, and one with an empty metric for a cell that was not compared';
COMMENT ON COLUMN prev_run.run_id IS 'run';
COMMENT ON COLUMN prev_run.cell_key IS 'ISL=…,OSL=…,TP=…,PP=…,CONC=…';
COMMENT ON COLUMN prev_run.cell_ordinal IS 'order of the cell in the plan; NULL for a cell that is gone';
COMMENT ON COLUMN prev_run.slot IS 'host where several measured the cell, else empty';
COMMENT ON COLUMN prev_run.metric IS 'gated metric; empty in the one row of a cell that was not compared as a whole';
COMMENT ON COLUMN prev_run.unit IS 'unit of the values';
COMMENT ON COLUMN prev_run.direction IS 'higher, lower or neutral: which way is better';
COMMENT ON COLUMN prev_run.tier IS 'tier of the metric';
COMMENT ON COLUMN prev_run.metric_ordinal IS 'display order';
COMMENT ON COLUMN prev_run.previous_run IS 'run compared with, NULL if there is none';
COMMENT ON COLUMN prev_run.previous_at IS 'its start, UTC';
COMMENT ON COLUMN prev_run.value IS 'value in this run';
COMMENT ON COLUMN prev_run.previous IS 'value in the previous run';
COMMENT ON COLUMN prev_run.ratio IS 'value / previous';
COMMENT ON COLUMN prev_run.delta_pct IS 'change in per cent of the previous value, signed as measured';
COMMENT ON COLUMN prev_run.better_pct IS 'the same with + for better';
COMMENT ON COLUMN prev_run.state IS 'compared, new (no previous value), gone (only in the previous run), not_comparable';
COMMENT ON COLUMN prev_run.reason IS 'why it is not compared, or what to know about the comparison';
COMMENT ON COLUMN prev_run.changed IS 'more than 5 % either way';
COMMENT ON COLUMN prev_run.regression IS 'more than 5 % to the worse; the plain rule, see view regressions for a judgement';
COMMENT ON COLUMN prev_run.noise_pct IS 'robust spread of the earlier runs, see view noise';
COMMENT ON COLUMN prev_run.noise_runs IS 'earlier runs that spread comes from';
