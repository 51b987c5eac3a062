-- long_context: needle-in-a-haystack cells as a grid of prompt length and depth,
-- with the confidence interval of the pass rate, and a row for each planned cell
-- that left nothing.
-- grain: run_id, task_id
-- reads: needle, expected_task, stage
-- unit:  isl in tokens, depth_pct in per cent of the prompt, rates as fractions
CREATE OR REPLACE VIEW long_context AS
SELECT run_id, task_id, isl, depth_pct, CASE WHEN status = 'done' AND total > 0 THEN 'measured' ELSE status END AS state, reason,
       correct, errors, total, pass_rate, ci_low, ci_high, exact, path
FROM needle
UNION ALL
SELECT t.run_id, t.task_id, NULL, NULL, CASE WHEN t.status = 'not_run' THEN 'not_run' ELSE 'absent' END,
       coalesce(nullif(t.reason, ''), (SELECT arg_max(nullif(s.reason, ''), s.seq) FROM stage s WHERE s.run_id = t.run_id AND s.stage = t.task_id), 'it left no result'),
       NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL
FROM expected_task t
WHERE t.kind = 'long_context_accuracy' AND NOT EXISTS (SELECT 1 FROM needle n WHERE n.run_id = t.run_id AND n.task_id = t.task_id);
COMMENT ON VIEW long_context IS 'Needle-in-a-haystack cells; one row per run and planned or measured cell';
COMMENT ON COLUMN long_context.run_id IS 'run';
COMMENT ON COLUMN long_context.task_id IS 'id of the cell in the configuration';
COMMENT ON COLUMN long_context.isl IS 'tokens of the prompt, NULL without a result';
COMMENT ON COLUMN long_context.depth_pct IS 'where the needle stood: 0 is the start of the prompt, 100 its end';
COMMENT ON COLUMN long_context.state IS 'measured, failed, skipped, interrupted, not_run, absent';
COMMENT ON COLUMN long_context.reason IS 'why it was not measured';
COMMENT ON COLUMN long_context.correct IS 'needles found';
COMMENT ON COLUMN long_context.errors IS 'requests without an answer, part of the wrong ones';
COMMENT ON COLUMN long_context.total IS 'prompts asked';
COMMENT ON COLUMN long_context.pass_rate IS 'correct / total';
COMMENT ON COLUMN long_context.ci_low IS 'lower end of the Wilson score interval, 95 per cent';
COMMENT ON COLUMN long_context.ci_high IS 'upper end of it';
COMMENT ON COLUMN long_context.exact IS 'the prompts had exactly isl tokens by the server''s own count';
COMMENT ON COLUMN long_context.path IS 'evidence, relative to the run directory';
