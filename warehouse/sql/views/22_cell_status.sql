-- cell_status: the verdict on each cell, also on those without a result.
-- grain: run_id, cell_key
-- reads: expected_cell, tiers, sample, problem, attempt, run
-- unit:  counts of gates over all hosts
CREATE OR REPLACE VIEW cell_status AS
WITH m AS (
    SELECT run_id, cell_key, count(DISTINCT host) AS hosts, count(*) AS samples
    FROM sample WHERE role = 'cell' AND usable AND cell_key IS NOT NULL GROUP BY run_id, cell_key
), t AS (
    SELECT run_id, cell_key,
           count(*) FILTER (WHERE state = 'fail') AS failed_tiers,
           count(*) FILTER (WHERE state = 'pass') AS passed_tiers,
           string_agg(tier || CASE WHEN host = '' THEN '' ELSE ' on ' || host END || ': ' || reason, '; ' ORDER BY ordinal, host)
               FILTER (WHERE state = 'fail') AS why,
           sum(pass) AS pass, sum(fail) AS fail, sum(invalid) AS invalid, sum(skipped) AS skipped, sum(na) AS na,
           sum(info) AS info, sum(record) AS record, sum(would_fail) AS would_fail,
           min(worst_margin_pct) AS worst_margin_pct, first(worst_metric ORDER BY worst_margin_pct, ordinal, host) FILTER (WHERE worst_margin_pct IS NOT NULL) AS worst_metric
    FROM tiers GROUP BY run_id, cell_key
), p AS (
    SELECT run_id, cell_key,
           string_agg(message, '; ' ORDER BY ordinal) FILTER (WHERE severity = 'data_error') AS errors,
           count(*) FILTER (WHERE severity = 'data_error') AS data_errors,
           count(*) FILTER (WHERE severity = 'warning') AS warnings
    FROM problem WHERE cell_key IS NOT NULL GROUP BY run_id, cell_key
), a AS (
    SELECT run_id, cell_key,
           bool_or(status = 'failed') AS broke, bool_or(status = 'interrupted') AS stopped,
           any_value(reason ORDER BY repeat DESC) FILTER (WHERE status IN ('failed', 'interrupted', 'skipped', 'not_run') AND reason <> '') AS reason
    FROM attempt GROUP BY run_id, cell_key
), g AS ( -- files are there, but the node they are of is not the one that was meant
    SELECT run_id, any_value(message ORDER BY ordinal) AS contradiction
    FROM problem WHERE code = 'gpu' AND severity = 'data_error' AND cell_key IS NULL GROUP BY run_id
)
SELECT e.run_id, e.ordinal, e.cell_key, e.cell_id, e.combo, e.isl, e.osl, e.concurrency, e.planned,
       CASE WHEN m.samples IS NULL THEN 'error'
            WHEN t.failed_tiers > 0 THEN 'fail'
            WHEN t.passed_tiers > 0 THEN 'pass'
            ELSE 'record' END AS state,
       CASE WHEN m.samples IS NULL THEN 'no result: ' || coalesce(nullif(concat_ws('; ', a.reason, p.errors), ''), g.contradiction, 'no result file was found')
            WHEN t.failed_tiers > 0 THEN t.why
            WHEN NOT r.enforce THEN 'thresholds are not enforced' || CASE WHEN t.would_fail > 0 THEN '; ' || t.would_fail || ' would fail' ELSE '' END
            WHEN t.passed_tiers > 0 THEN CASE WHEN t.skipped > 0 THEN t.skipped || ' skipped' END
            ELSE 'no gate was evaluated' END AS reason,
       coalesce(m.samples, 0)::INTEGER AS samples, coalesce(m.hosts, 0)::INTEGER AS hosts,
       coalesce(t.pass, 0)::INTEGER AS pass, coalesce(t.fail, 0)::INTEGER AS fail, coalesce(t.invalid, 0)::INTEGER AS invalid,
       coalesce(t.skipped, 0)::INTEGER AS skipped, coalesce(t.na, 0)::INTEGER AS na, coalesce(t.info, 0)::INTEGER AS info,
       coalesce(t.record, 0)::INTEGER AS record, coalesce(t.would_fail, 0)::INTEGER AS would_fail,
       t.worst_margin_pct, t.worst_metric,
       coalesce(p.data_errors, 0)::INTEGER AS data_errors, coalesce(p.warnings, 0)::INTEGER AS warnings,
       coalesce(a.broke, false) AS broke
FROM expected_cell e
JOIN run r ON r.run_id = e.run_id
LEFT JOIN m ON m.run_id = e.run_id AND m.cell_key = e.cell_key
LEFT JOIN t ON t.run_id = e.run_id AND t.cell_key = e.cell_key
LEFT JOIN p ON p.run_id = e.run_id AND p.cell_key = e.cell_key
LEFT JOIN a ON a.run_id = e.run_id AND a.cell_key = e.cell_key
LEFT JOIN g ON g.run_id = e.run_id;
COMMENT ON VIEW cell_status IS 'The verdict on each cell, also on those without a result; one row per run and cell';
COMMENT ON COLUMN cell_status.run_id IS 'run';
COMMENT ON COLUMN cell_status.ordinal IS 'order in the plan';
COMMENT ON COLUMN cell_status.cell_key IS 'ISL=…,OSL=…,TP=…,PP=…,CONC=…';
COMMENT ON COLUMN cell_status.cell_id IS '<combo>-conc<concurrency>';
COMMENT ON COLUMN cell_status.combo IS 'name of the sequence combination';
COMMENT ON COLUMN cell_status.isl IS 'input length, tokens';
COMMENT ON COLUMN cell_status.osl IS 'output length, tokens';
COMMENT ON COLUMN cell_status.concurrency IS 'configured limit of requests in flight';
COMMENT ON COLUMN cell_status.planned IS 'false: not planned, made from a loose result';
COMMENT ON COLUMN cell_status.state IS 'error (expected, but no usable result), fail, pass, record';
COMMENT ON COLUMN cell_status.reason IS 'why the state is what it is';
COMMENT ON COLUMN cell_status.samples IS 'usable benchmarks';
COMMENT ON COLUMN cell_status.hosts IS 'nodes with a usable benchmark';
COMMENT ON COLUMN cell_status.pass IS 'gates that hold';
COMMENT ON COLUMN cell_status.fail IS 'gates that do not hold';
COMMENT ON COLUMN cell_status.invalid IS 'gates whose value cannot be used; they count as failed';
COMMENT ON COLUMN cell_status.skipped IS 'gates whose value is not in the artifact';
COMMENT ON COLUMN cell_status.na IS 'gates whose value cannot exist here';
COMMENT ON COLUMN cell_status.info IS 'specs that only record';
COMMENT ON COLUMN cell_status.record IS 'specs not judged because thresholds are not enforced';
COMMENT ON COLUMN cell_status.would_fail IS 'violated specs while thresholds are not enforced';
COMMENT ON COLUMN cell_status.worst_margin_pct IS 'smallest signed margin of its gates, per cent';
COMMENT ON COLUMN cell_status.worst_metric IS 'metric of that margin';
COMMENT ON COLUMN cell_status.data_errors IS 'problems that make a result unusable';
COMMENT ON COLUMN cell_status.warnings IS 'other problems with its files';
COMMENT ON COLUMN cell_status.broke IS 'true: host, server or client failed in an attempt';
