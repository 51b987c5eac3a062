-- run_status: the verdict on a run, why, and the exit status it stands for.
-- grain: run_id
-- reads: run, cell_status, check_gates, expected_task, problem, sample
-- unit:  counts of cells, gates and tasks
-- exit_code: 130 interrupted, 4 host or server or client failed, 3 a result is
-- missing or contradicts its identity, 1 a gate failed, 0 otherwise; the first
-- that applies. A run that measured nothing is never 0; accuracy that nobody
-- planned, such as that of a published history, is something measured.
CREATE OR REPLACE VIEW run_status AS
WITH c AS (
    SELECT run_id,
           count(*) FILTER (WHERE planned) AS expected,
           count(*) AS cells,
           count(*) FILTER (WHERE state <> 'error') AS measured,
           count(*) FILTER (WHERE state = 'error') AS cells_error,
           count(*) FILTER (WHERE state = 'fail') AS cells_fail,
           count(*) FILTER (WHERE state = 'pass') AS cells_pass,
           count(*) FILTER (WHERE state = 'record') AS cells_record,
           count(*) FILTER (WHERE state = 'error' AND broke) AS cells_broke,
           sum(pass) AS pass, sum(fail) AS fail, sum(invalid) AS invalid, sum(skipped) AS skipped,
           sum(na) AS na, sum(info) AS info, sum(record) AS record, sum(would_fail) AS would_fail,
           string_agg(coalesce(nullif(cell_id, ''), cell_key) || ': ' || reason, chr(10) ORDER BY ordinal) FILTER (WHERE state = 'error') AS error_lines,
           string_agg(coalesce(nullif(cell_id, ''), cell_key) || ': ' || reason, chr(10) ORDER BY ordinal) FILTER (WHERE state = 'fail') AS fail_lines
    FROM cell_status GROUP BY run_id
), k AS (
    SELECT run_id,
           count(*) FILTER (WHERE state = 'pass') AS pass, count(*) FILTER (WHERE state = 'fail') AS fail,
           count(*) FILTER (WHERE state = 'invalid') AS invalid, count(*) FILTER (WHERE state = 'skipped' AND metric <> '') AS skipped,
           count(*) FILTER (WHERE state = 'info') AS info, count(*) FILTER (WHERE state = 'record' AND metric <> '') AS record,
           count(*) FILTER (WHERE would_fail) AS would_fail,
           count(*) FILTER (WHERE state = 'error') AS error,
           count(DISTINCT (scope, target)) FILTER (WHERE state = 'error') AS tasks_error,
           count(DISTINCT (scope, target)) FILTER (WHERE state = 'skipped' AND metric = '') AS tasks_not_run,
           string_agg(DISTINCT scope || ' ' || target || ': ' || reason, chr(10)) FILTER (WHERE state = 'error' OR (state = 'skipped' AND metric = '')) AS task_lines,
           string_agg(concat_ws(' ', scope, target, nullif(metric, '')) || ': ' || reason, chr(10) ORDER BY ordinal) FILTER (WHERE state IN ('fail', 'invalid')) AS fail_lines
    FROM check_gates GROUP BY run_id
), t AS (
    SELECT run_id, count(*) AS tasks FROM expected_task GROUP BY run_id
), p AS (
    SELECT run_id, count(*) FILTER (WHERE severity = 'data_error') AS data_errors, count(*) FILTER (WHERE severity = 'warning') AS warnings,
           string_agg(message, chr(10) ORDER BY ordinal) FILTER (WHERE severity = 'data_error' AND cell_key IS NULL AND task_id IS NULL) AS error_lines
    FROM problem GROUP BY run_id
), a AS (
    SELECT run_id, count(*) AS scored FROM sample WHERE role = 'accuracy' AND usable GROUP BY run_id
), s AS (
    SELECT r.run_id, r.status, r.reason, r.enforce, r.enforce_origin, r.simulated,
           coalesce(c.expected, 0) AS expected, coalesce(c.measured, 0) AS measured, coalesce(c.cells, 0) AS cells,
           coalesce(c.cells_error, 0) AS cells_error, coalesce(c.cells_fail, 0) AS cells_fail,
           coalesce(c.cells_pass, 0) AS cells_pass, coalesce(c.cells_record, 0) AS cells_record, coalesce(c.cells_broke, 0) AS cells_broke,
           coalesce(c.pass, 0) + coalesce(k.pass, 0) AS pass, coalesce(c.fail, 0) + coalesce(k.fail, 0) AS fail,
           coalesce(c.invalid, 0) + coalesce(k.invalid, 0) AS invalid, coalesce(c.skipped, 0) + coalesce(k.skipped, 0) AS skipped,
           coalesce(c.na, 0) AS na, coalesce(c.info, 0) + coalesce(k.info, 0) AS info,
           coalesce(c.record, 0) + coalesce(k.record, 0) AS record, coalesce(c.would_fail, 0) + coalesce(k.would_fail, 0) AS would_fail,
           coalesce(k.fail, 0) + coalesce(k.invalid, 0) AS checks_failed, coalesce(k.pass, 0) AS checks_passed,
           coalesce(t.tasks, 0) AS tasks, coalesce(k.tasks_error, 0) AS tasks_error, coalesce(k.tasks_not_run, 0) AS tasks_not_run,
           coalesce(a.scored, 0) AS scored,
           coalesce(p.data_errors, 0) AS data_errors, coalesce(p.warnings, 0) AS warnings,
           c.error_lines, c.fail_lines, k.task_lines, k.fail_lines AS check_lines, p.error_lines AS run_lines
    FROM run r
    LEFT JOIN c ON c.run_id = r.run_id
    LEFT JOIN k ON k.run_id = r.run_id
    LEFT JOIN t ON t.run_id = r.run_id
    LEFT JOIN p ON p.run_id = r.run_id
    LEFT JOIN a ON a.run_id = r.run_id
), q AS (
    SELECT *, measured = 0 AND tasks - tasks_error - tasks_not_run <= 0 AND scored = 0 AS nothing FROM s
), v AS (
    SELECT *,
           CASE WHEN cells_fail > 0 OR checks_failed > 0 THEN 'fail'
                WHEN cells_pass > 0 OR checks_passed > 0 THEN 'pass'
                ELSE 'record' END AS verdict,
           cells_error > 0 OR tasks_error > 0 OR tasks_not_run > 0 OR status <> 'done' OR nothing AS incomplete
    FROM q
)
SELECT run_id, status, verdict, incomplete,
       CASE WHEN verdict = 'fail' THEN 'FAIL' WHEN incomplete THEN 'INCOMPLETE' WHEN verdict = 'pass' THEN 'PASS' ELSE 'RECORD' END AS headline,
       CASE                                          -- first match wins; the order is the rule
           WHEN status = 'interrupted' THEN 130
           WHEN status = 'failed' OR cells_broke > 0 THEN 4
           WHEN cells_error > 0 OR tasks_error > 0 OR data_errors > 0 OR nothing THEN 3
           WHEN verdict = 'fail' THEN 1
           ELSE 0
       END AS exit_code,
       concat_ws(chr(10),
           CASE WHEN status = 'interrupted' THEN 'the run was interrupted' || coalesce(': ' || nullif(reason, ''), '')
                WHEN status = 'failed' THEN 'the run failed' || coalesce(': ' || nullif(reason, ''), '')
                WHEN status = 'running' THEN 'the run has not ended' END,
           run_lines, error_lines, task_lines, fail_lines, check_lines,
           CASE WHEN NOT enforce THEN 'thresholds are not enforced' || coalesce(' (' || nullif(enforce_origin, '') || ')', '')
                || CASE WHEN would_fail > 0 THEN ': ' || would_fail || ' would fail' ELSE '' END END,
           CASE WHEN nothing THEN 'nothing was measured' END) AS reasons,
       enforce, simulated,
       expected::INTEGER AS expected, measured::INTEGER AS measured, cells::INTEGER AS cells,
       cells_pass::INTEGER AS cells_pass, cells_fail::INTEGER AS cells_fail, cells_record::INTEGER AS cells_record, cells_error::INTEGER AS cells_error,
       pass::INTEGER AS pass, fail::INTEGER AS fail, invalid::INTEGER AS invalid, skipped::INTEGER AS skipped, na::INTEGER AS na,
       info::INTEGER AS info, record::INTEGER AS record, would_fail::INTEGER AS would_fail,
       tasks::INTEGER AS tasks, tasks_error::INTEGER AS tasks_error, tasks_not_run::INTEGER AS tasks_not_run,
       data_errors::INTEGER AS data_errors, warnings::INTEGER AS warnings
FROM v;
COMMENT ON VIEW run_status IS 'The verdict on a run, why, and the exit status it stands for; one row per run';
COMMENT ON COLUMN run_status.run_id IS 'run';
COMMENT ON COLUMN run_status.status IS 'how far the run got: running, done, failed, interrupted';
COMMENT ON COLUMN run_status.verdict IS 'pass, fail or record';
COMMENT ON COLUMN run_status.incomplete IS 'true: something planned has no result; never green';
COMMENT ON COLUMN run_status.headline IS 'FAIL, INCOMPLETE, PASS or RECORD: the one word for people';
COMMENT ON COLUMN run_status.exit_code IS '0, 1, 3, 4 or 130';
COMMENT ON COLUMN run_status.reasons IS 'one reason a line, what decides first';
COMMENT ON COLUMN run_status.enforce IS 'true: thresholds gate';
COMMENT ON COLUMN run_status.simulated IS 'true: the lab, not hardware';
COMMENT ON COLUMN run_status.expected IS 'planned cells';
COMMENT ON COLUMN run_status.measured IS 'cells with a usable result';
COMMENT ON COLUMN run_status.cells IS 'all cells, planned or not';
COMMENT ON COLUMN run_status.cells_pass IS 'cells in state pass';
COMMENT ON COLUMN run_status.cells_fail IS 'cells in state fail';
COMMENT ON COLUMN run_status.cells_record IS 'cells in state record';
COMMENT ON COLUMN run_status.cells_error IS 'cells in state error';
COMMENT ON COLUMN run_status.pass IS 'gates and check gates that hold';
COMMENT ON COLUMN run_status.fail IS 'gates and check gates that do not hold';
COMMENT ON COLUMN run_status.invalid IS 'gates whose value cannot be used; they count as failed';
COMMENT ON COLUMN run_status.skipped IS 'gates whose value is not in the artifact';
COMMENT ON COLUMN run_status.na IS 'gates whose value cannot exist';
COMMENT ON COLUMN run_status.info IS 'specs that only record';
COMMENT ON COLUMN run_status.record IS 'specs not judged because thresholds are not enforced';
COMMENT ON COLUMN run_status.would_fail IS 'violated specs while thresholds are not enforced';
COMMENT ON COLUMN run_status.tasks IS 'planned checks that are not cells';
COMMENT ON COLUMN run_status.tasks_error IS 'of these, planned but without a result';
COMMENT ON COLUMN run_status.tasks_not_run IS 'of these, known in advance not to run';
COMMENT ON COLUMN run_status.data_errors IS 'problems that make a result unusable';
COMMENT ON COLUMN run_status.warnings IS 'other problems';
