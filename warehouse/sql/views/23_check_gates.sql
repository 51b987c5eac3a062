-- check_gates: verdicts on everything that is not a sweep cell: accuracy tasks
-- and other planned checks.
-- grain: run_id, scope, target, metric (metric is empty for a task without specs)
-- reads: threshold, accuracy, check_result, expected_task, sample, stage, run
-- unit:  as the metric; no scaling between fraction and per cent
-- A functional check that does not hold, and an error in a kernel log, fail
-- whether or not thresholds are enforced: they are no thresholds. Telemetry that
-- was not to be had is skipped, with the reason, never passed over.
-- A task of which no spec finds its value fails: a misspelt metric must not
-- wave a model through. A planned task without a result is an error.
CREATE OR REPLACE VIEW check_gates AS
WITH fact AS (                                      -- how each check went, all its hosts or cells together
    SELECT run_id, scope, target,
           bool_or(status = 'done') AS some_done,
           bool_and(status = 'done') AS all_done,
           bool_and(passed) FILTER (WHERE status = 'done') AS passed,
           count(*) AS parts, count(*) FILTER (WHERE status <> 'done') AS parts_without,
           arg_min(CASE WHEN part <> '' THEN part || ': ' ELSE '' END || coalesce(detail, status), ordinal) FILTER (WHERE status <> 'done') AS trouble,
           string_agg(CASE WHEN part <> '' THEN part || ': ' ELSE '' END || coalesce(detail, 'it does not hold'), '; ' ORDER BY ordinal) FILTER (WHERE status = 'done' AND NOT passed) AS found,
           coalesce(arg_min(path, ordinal) FILTER (WHERE status = 'done' AND NOT passed), arg_min(path, ordinal) FILTER (WHERE status <> 'done'), arg_min(path, ordinal)) AS path
    FROM check_result WHERE metric = '' GROUP BY run_id, scope, target
), told AS (                                        -- what the stage of a task said when it left nothing
    SELECT run_id, stage, arg_max(status || ': ' || reason, seq) AS said
    FROM stage WHERE status IN ('failed', 'skipped', 'interrupted') AND reason <> '' GROUP BY run_id, stage
), value AS (
    SELECT run_id, 'accuracy' AS scope, task_id AS target, metric, true AS present, value, quality, text, stderr, path, ordinal, stat, NULL AS detail FROM accuracy
    UNION ALL
    SELECT run_id, scope, target, metric, value IS NOT NULL OR text IS NOT NULL, value, CASE WHEN value IS NULL THEN 'text' ELSE 'ok' END, text, NULL, path, ordinal, metric, detail
    FROM check_result WHERE metric <> '' AND scope IN ('mtp_quality', 'long_context_accuracy', 'quant_parity') AND status = 'done'
), task AS (
    SELECT t.run_id, t.kind, t.task_id, t.ordinal, t.status, coalesce(nullif(t.reason, ''), f.trouble, o.said) AS reason,
           f.passed, f.found, f.trouble, f.parts, f.parts_without, f.path,
           CASE WHEN t.kind = 'accuracy' THEN EXISTS (SELECT 1 FROM sample s WHERE s.run_id = t.run_id AND s.role = 'accuracy' AND s.usable AND s.task_id = t.task_id)
                WHEN f.target IS NOT NULL THEN f.all_done OR (f.some_done AND (t.task_id = 'gpu_metrics_poll' OR NOT f.passed))
                ELSE coalesce(t.status = 'done', false) OR EXISTS (SELECT 1 FROM stage s WHERE s.run_id = t.run_id AND s.stage = t.task_id AND s.status = 'done') END AS has_result
    FROM expected_task t
    LEFT JOIN fact f ON f.run_id = t.run_id AND f.scope = t.kind AND f.target = t.task_id
    LEFT JOIN told o ON o.run_id = t.run_id AND o.stage = t.task_id
), trouble AS (
    SELECT run_id, task_id, string_agg(message, '; ' ORDER BY ordinal) AS errors
    FROM problem WHERE task_id IS NOT NULL AND severity = 'data_error' GROUP BY run_id, task_id
), names AS (
    SELECT run_id, scope, target, string_agg(metric, ', ' ORDER BY ordinal) FILTER (WHERE NOT ends_with(stat, '_stderr')) AS reported
    FROM value WHERE present GROUP BY run_id, scope, target
), asked AS (                                       -- the blocks that stand alone have no id in the threshold file
    SELECT *, coalesce(nullif(target, ''), scope) AS task_id FROM threshold WHERE scope <> 'cell'
), spec AS (
    SELECT t.run_id, t.scope, t.task_id AS target, t.metric, t.kind, t.value AS wanted, t.tolerance_pct, t.reference, t.file, t.line, t.pointer, t.ordinal,
           r.enforce, k.task_id IS NOT NULL AS planned, k.status AS task_status, k.reason AS task_reason,
           coalesce(k.has_result, a.present, false) AS has_result,
           coalesce(a.present, false) AS present, a.value AS got, a.quality, a.text AS got_text, a.stderr, a.path, a.detail,
           ref.value AS ref_value, ref.metric IS NOT NULL AS ref_present,
           x.errors, n.reported
    FROM asked t
    JOIN run r ON r.run_id = t.run_id
    LEFT JOIN task k ON k.run_id = t.run_id AND k.kind = t.scope AND k.task_id = t.task_id
    LEFT JOIN value a ON a.run_id = t.run_id AND a.scope = t.scope AND a.target = t.task_id AND a.metric = t.metric
    LEFT JOIN value ref ON ref.run_id = t.run_id AND ref.scope = t.scope AND ref.target = t.task_id AND ref.metric = t.reference AND ref.present
    LEFT JOIN trouble x ON x.run_id = t.run_id AND x.task_id = t.task_id
    LEFT JOIN names n ON n.run_id = t.run_id AND n.scope = t.scope AND n.target = t.task_id
), b AS (
    SELECT *, CASE WHEN kind = 'min_ratio' THEN got / nullif(ref_value, 0) ELSE got END AS actual,
           bool_or(present AND kind <> 'info') OVER (PARTITION BY run_id, scope, target) AS some_value,
           CASE kind
               WHEN 'within' THEN 'within ' || num_text(wanted) || ' ± ' || num_text(tolerance_pct) || ' %'
               WHEN 'min_ratio' THEN '>= ' || num_text(wanted) || ' × ' || reference
               WHEN 'info' THEN 'recorded only'
               WHEN 'max' THEN '<= ' || num_text(wanted) WHEN 'max_ms' THEN '<= ' || num_text(wanted) || ' ms'
               WHEN 'min' THEN '>= ' || num_text(wanted) WHEN 'min_tok_s' THEN '>= ' || num_text(wanted) || ' tok/s'
               ELSE kind END AS bound
    FROM spec
), judged AS (
    SELECT *,
           CASE                                     -- first match wins; the order is the rule
               WHEN kind NOT IN ('min', 'min_tok_s', 'max', 'max_ms', 'within', 'min_ratio', 'info') THEN 'invalid'
               WHEN kind <> 'info' AND NOT coalesce(isfinite(wanted), false) THEN 'invalid'
               WHEN kind = 'info' THEN 'info'
               -- known in advance not to run: an error only where it should have gated
               WHEN planned AND NOT has_result AND task_status = 'not_run' AND NOT enforce THEN 'skipped'
               WHEN planned AND NOT has_result THEN 'error'
               WHEN NOT present AND scope IN ('accuracy', 'long_context_accuracy') AND NOT coalesce(some_value, false) AND has_result THEN 'fail'
               WHEN NOT present THEN 'skipped'
               WHEN quality <> 'ok' OR NOT coalesce(isfinite(got), false) THEN 'invalid'
               WHEN kind = 'min_ratio' AND NOT coalesce(isfinite(actual), false) THEN 'invalid'
               WHEN kind IN ('min', 'min_tok_s', 'min_ratio') AND actual >= wanted THEN 'pass'
               WHEN kind IN ('max', 'max_ms') AND actual <= wanted THEN 'pass'
               WHEN kind = 'within' AND in_band(got, wanted, tolerance_pct) THEN 'pass'
               ELSE 'fail' END AS judgement
    FROM b
)
SELECT run_id, scope, target, metric, kind, wanted, tolerance_pct, reference, got, coalesce(got_text, num_text(got)) AS got_text, stderr, bound,
       CASE WHEN judgement IN ('info', 'error') THEN judgement WHEN NOT enforce THEN 'record' ELSE judgement END AS state,
       NOT enforce AND judgement IN ('fail', 'invalid') AS would_fail,
       CASE judgement
           WHEN 'error' THEN 'no result: ' || coalesce(nullif(task_reason, ''), errors, CASE WHEN scope = 'accuracy' THEN 'no results_*.json under accuracy/' || target ELSE 'it left none' END)
           WHEN 'skipped' THEN CASE WHEN planned AND NOT has_result THEN 'not run: ' || coalesce(nullif(task_reason, ''), 'no reason given')
                                    WHEN scope = 'accuracy' THEN 'no such metric; reported: ' || coalesce(reported, 'none')
                                    ELSE 'not measured: ' || coalesce(detail, 'reported: ' || coalesce(reported, 'none')) END
           WHEN 'invalid' THEN CASE WHEN NOT coalesce(isfinite(wanted), false) THEN 'the spec has no usable value'
                                    WHEN quality <> 'ok' THEN got_text || ' is not a finite number'
                                    WHEN kind = 'min_ratio' THEN 'reference ' || coalesce(reference, '') || CASE WHEN ref_present THEN ' cannot be used' ELSE ' is missing' END
                                    ELSE 'unknown kind ' || kind END
           WHEN 'pass' THEN num_text(got) || ' ' || bound
           WHEN 'fail' THEN CASE WHEN NOT present THEN 'nothing to gate: no metric ' || metric || '; reported: ' || coalesce(reported, 'none')
                                 WHEN kind = 'min_ratio' THEN 'ratio ' || num_text(actual) || ' < ' || num_text(wanted)
                                 WHEN kind = 'within' THEN num_text(got) || ' is not ' || bound
                                 ELSE num_text(got) || CASE WHEN kind IN ('max', 'max_ms') THEN ' > ' ELSE ' < ' END || num_text(wanted) END
                || CASE WHEN present AND got BETWEEN 0 AND 1 AND wanted > 1 THEN ' (a fraction against a per cent?)' ELSE '' END
                || CASE WHEN present AND detail IS NOT NULL THEN ' (' || detail || ')' ELSE '' END
           WHEN 'info' THEN coalesce(num_text(got), got_text, 'no value' || coalesce(': ' || detail, ''))
       END AS reason,
       CASE WHEN judgement IN ('pass', 'fail') AND kind IN ('min', 'min_tok_s', 'min_ratio') THEN 100 * (actual - wanted) / nullif(abs(wanted), 0)
            WHEN judgement IN ('pass', 'fail') AND kind IN ('max', 'max_ms') THEN 100 * (wanted - actual) / nullif(abs(wanted), 0)
            WHEN judgement IN ('pass', 'fail') AND kind = 'within' THEN greatest(tolerance_pct - 100 * abs(got - wanted) / nullif(abs(wanted), 0), CASE WHEN judgement = 'pass' AND wanted <> 0 THEN 0 END) END AS margin_pct,
       path, file, line, pointer, ordinal
FROM judged
UNION ALL
SELECT k.run_id, k.kind, k.task_id, '', '', NULL, NULL, NULL, NULL, NULL, NULL, '',
       CASE WHEN k.has_result AND NOT k.passed THEN 'fail'
            WHEN k.has_result AND k.passed AND r.enforce THEN 'pass'
            WHEN k.has_result THEN 'record' WHEN k.status = 'not_run' THEN 'skipped'
            WHEN k.task_id = 'gpu_metrics_poll' AND k.parts > 0 THEN 'skipped' ELSE 'error' END, false,
       CASE WHEN k.has_result AND NOT k.passed THEN k.found || coalesce('; not carried out: ' || k.trouble, '')
            WHEN k.has_result AND k.passed THEN 'holds' || coalesce('; ' || w.said, '')
            WHEN k.has_result AND k.parts_without > 0 THEN 'no telemetry in ' || k.parts_without || ' of ' || k.parts || ' cells: ' || k.trouble
            WHEN k.has_result THEN 'ran; no spec judges it'
            WHEN k.task_id = 'gpu_metrics_poll' AND k.parts > 0 THEN 'no telemetry: ' || k.trouble
            WHEN k.status = 'not_run' THEN 'not run: ' || coalesce(nullif(k.reason, ''), 'no reason given')
            ELSE 'no result: ' || coalesce(nullif(k.reason, ''), x.errors, CASE WHEN k.kind = 'accuracy' THEN 'no results_*.json under accuracy/' || k.task_id ELSE 'it left none' END) END,
       NULL, k.path, NULL, NULL, NULL, 100000 + k.ordinal
FROM task k
JOIN run r ON r.run_id = k.run_id
LEFT JOIN trouble x ON x.run_id = k.run_id AND x.task_id = k.task_id
LEFT JOIN (SELECT run_id, target, string_agg(num_text(value) || ' warnings on ' || part || ': ' || detail, '; ' ORDER BY ordinal) AS said
           FROM check_result WHERE scope = 'platform' AND metric = 'warnings' AND value > 0 GROUP BY run_id, target) w ON w.run_id = k.run_id AND w.target = k.task_id
-- a task that only records is still to be seen when it left nothing
WHERE (k.status = 'not_run' AND NOT k.has_result AND NOT r.enforce)
   OR NOT EXISTS (SELECT 1 FROM threshold t WHERE t.run_id = k.run_id AND t.scope = k.kind AND coalesce(nullif(t.target, ''), t.scope) = k.task_id
                  AND (t.kind <> 'info' OR k.has_result));
COMMENT ON VIEW check_gates IS 'Verdicts on accuracy tasks and other checks; one row per run and spec, and one per planned task without specs';
COMMENT ON COLUMN check_gates.run_id IS 'run';
COMMENT ON COLUMN check_gates.scope IS 'accuracy, mtp_quality, long_context_accuracy, quant_parity, functional, platform';
COMMENT ON COLUMN check_gates.target IS 'task id';
COMMENT ON COLUMN check_gates.metric IS 'metric of the spec, empty for a task without specs';
COMMENT ON COLUMN check_gates.kind IS 'kind of the spec';
COMMENT ON COLUMN check_gates.wanted IS 'value of the spec';
COMMENT ON COLUMN check_gates.tolerance_pct IS 'half width of a within band, per cent';
COMMENT ON COLUMN check_gates.reference IS 'metric a min_ratio divides by';
COMMENT ON COLUMN check_gates.got IS 'measured value, NULL if there is none that can be used';
COMMENT ON COLUMN check_gates.got_text IS 'measured value as text';
COMMENT ON COLUMN check_gates.stderr IS 'standard error of got, NULL if not reported';
COMMENT ON COLUMN check_gates.bound IS 'what was asked, in words';
COMMENT ON COLUMN check_gates.state IS 'pass, fail, invalid (counts as fail), skipped, info, record, error (planned, no result)';
COMMENT ON COLUMN check_gates.would_fail IS 'true: thresholds are not enforced, but this one is violated';
COMMENT ON COLUMN check_gates.reason IS 'why the state is what it is';
COMMENT ON COLUMN check_gates.margin_pct IS 'signed distance to the bound, per cent, positive is good';
COMMENT ON COLUMN check_gates.path IS 'raw file the value came from';
COMMENT ON COLUMN check_gates.file IS 'threshold file';
COMMENT ON COLUMN check_gates.line IS 'line of the spec in it';
COMMENT ON COLUMN check_gates.pointer IS 'JSON pointer of the spec in it';
COMMENT ON COLUMN check_gates.ordinal IS 'order of the specs, then of the tasks';
